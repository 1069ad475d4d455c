"""`python -m bench.pairs`."""

import os

from bench.pairs import main

os.environ.setdefault("OMP_NUM_THREADS", "1")
main()
