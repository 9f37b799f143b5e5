"""Spark's parts (master, worker, driver), their configuration, and what is observed of them."""
