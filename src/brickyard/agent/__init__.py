"""The node agent: one process per instance, which makes its node what the server assigns. Runs where no server is."""
