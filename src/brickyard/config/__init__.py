"""A workspace's settings (`settings`), and what says which values they may have."""
