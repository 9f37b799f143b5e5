"""The Databricks API: one module per group of operations."""
