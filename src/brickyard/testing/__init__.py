"""Simulated provider and agent, builders, clock: shipped, because users test with them too."""
