"""Builders and a clock: shipped, because users test with them too."""
