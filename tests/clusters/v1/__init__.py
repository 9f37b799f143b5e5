"""The /v1/clusters dialect."""
