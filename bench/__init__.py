"""Benchmarks: `./dev bench NAME`. Each compares with a floor or a peer in the same run, states its machine and prints a table."""

import signal
import sys

# What a benchmark has started ends with it, also when it is told to end.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
