"""The Databricks API: one module a group of operations."""
