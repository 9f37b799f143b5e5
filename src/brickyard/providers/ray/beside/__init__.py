"""What runs beside the server, in an interpreter that has Ray: the standard library and `ray` only, nothing of Brickyard.

`main.py` answers the server, line by line; `cluster.py` speaks with Ray; `instance.py` is the actor, which Ray brings to a
machine.
"""
