"""Builders, a clock, the provider contract: shipped, because users test with them too."""
