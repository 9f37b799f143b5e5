"""Requests and answers of the /v1/clusters dialect."""
