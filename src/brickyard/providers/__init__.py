"""Providers: they supply instances."""
