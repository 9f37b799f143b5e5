"""Ways to ports of nodes on other machines: Unix sockets of this server, each leading through TLS to an agent. A process of their
own carries the bytes, so that bulk data neither waits for the server nor keeps it from its work."""
