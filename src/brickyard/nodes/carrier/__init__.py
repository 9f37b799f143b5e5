"""The byte carrier: a process that listens for routes and carries their connections to ports of nodes, so that bulk data neither
waits for the server nor keeps it from its work. Its users: `nodes/tunnels.py` and `gateway/tcpports.py`, each with a process of
its own, since TLS for one would slow the other down, and since they end at different times."""
