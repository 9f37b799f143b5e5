"""Real Spark and GPU clusters behind the Databricks compute API, on machines of your own."""

__version__ = "0.1.0"
