"""What a server and its commands share: data directory, lock, secrets, logs, limits. Imports the domain and the agent only."""
