"""Logs of clusters: lists, reads and followers."""
