"""The server as a process: its data directory, lock, secrets, logs, start and end. Imports config and domain only."""
