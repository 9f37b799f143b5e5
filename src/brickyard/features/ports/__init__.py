"""Ports of clusters that are reachable from outside."""
