"""The /v1/clusters API: the workspace's clusters in the dialect of a GPU cloud."""
