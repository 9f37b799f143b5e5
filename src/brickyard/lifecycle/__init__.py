"""Shared by a server and its commands: data directory, lock, secrets, logs, limits. Imports only the domain and the agent."""
