"""The Cluster Policies API."""
