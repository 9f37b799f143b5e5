"""The agent's conversation with servers: what it answers (`server`), and what it reports and fetches (`serverlink`)."""
