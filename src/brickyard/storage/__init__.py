"""The storage of a workspace: what its servers and nodes share besides the database. No other package knows its layout.

`urls.py` says which storage a setting names, `directory.py` implements it as a directory, and `logs.py` keeps the logs of nodes
that have ended. Imports no other part of Brickyard except the agent's file helpers.
"""
