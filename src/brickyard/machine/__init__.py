"""This machine's operating system, for servers, agents and commands: files, locks, processes, control groups, GPUs, memory and
disks, addresses, TLS, package indexes. Knows nothing of clusters, and imports no other part of Brickyard."""
