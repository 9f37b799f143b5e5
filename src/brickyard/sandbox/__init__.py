"""The walls around users' code: `launcher` starts programs behind them, `view` says what these see of the files, `cells` keep the
programs of one node apart, `syscalls` says which system calls nobody has, and `network` gives clusters networks of their own.

`enter.py`, `reveal.py` and `netproc.py` run as programs. Imports no other part of Brickyard but `machine`.
"""
