"""Benchmarks: `./dev bench NAME`. Each compares with a floor or a peer in the same run, states its machine and prints a table."""

import signal
import sys

# Everything that a benchmark starts ends with it, also when the benchmark is told to end.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
