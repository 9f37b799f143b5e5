"""Builders, a clock and the provider contract. Shipped, because users test with them too."""
