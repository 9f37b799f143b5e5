"""What the providers have, and who has taken it."""
