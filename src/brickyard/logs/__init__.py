"""Logs of nodes: read while they grow, kept when a node ends, and delivered to where a cluster's owner wants them, object stores
included; also how agents and servers copy files from and to object stores (`transfers`). And what our own processes log."""
