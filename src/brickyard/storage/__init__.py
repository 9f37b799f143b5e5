"""The storage of a workspace: what its servers and nodes share besides the database. No other package knows its layout.

`urls.py` says which storage a setting names, `directory.py` implements it as a directory, and `logs.py` keeps the logs of nodes
that have ended. Imports `logs`, `machine` and the domain, and no other part of Brickyard.
"""
