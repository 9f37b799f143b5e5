"""The node agent: one process per instance. It imports only the domain package."""
