"""`python -m bench.pairs`: named arrays compared with loaders in step."""

from bench.pairs import named

named.main()
