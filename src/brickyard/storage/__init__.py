"""The storage of a workspace: what its servers and nodes share beside the database. Nothing else knows its layout.

`urls.py` says which storage a setting names, `directory.py` is the one there is, a directory, and `logs.py` what is kept there of
nodes that ended. Imports nothing of ours but the agent's file helpers.
"""
