"""`python -m damacy`: the command line."""

from damacy.cli import main

main()
