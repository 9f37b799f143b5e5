"""Spark's parts (master, worker, driver), their configuration, and how they are observed."""
