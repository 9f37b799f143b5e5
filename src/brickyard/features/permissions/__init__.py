"""The permissions API."""
