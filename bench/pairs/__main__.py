"""`python -m bench.pairs`: named arrays beside loaders in step."""

from bench.pairs import named

named.main()
