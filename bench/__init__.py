"""Benchmarks: `./dev bench NAME`. Each compares with a floor or a peer in the same run, states its machine and prints a table."""
