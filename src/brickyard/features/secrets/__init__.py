"""Secrets: scopes, values, and what contexts may read."""
