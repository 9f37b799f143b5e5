"""Watchers of changed clusters, policies, pools and runs."""
