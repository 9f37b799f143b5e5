"""The server's side of nodes: their agents' reports, their loads, and calls to them."""
