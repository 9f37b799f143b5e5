"""Spark's Python workers where users are kept apart: those of each session run in a cell of their own.

Spark starts `front.py` in the place of Python, beside its JVM. It asks the node host (`door.py`) for a cell, in which `worker.py`
forks the workers. They talk to the JVM over its own connections, which the front hands over, and see nothing else of it: no
process, no file that it maps, reads or writes, and no variable of its environment that holds a secret.
"""
