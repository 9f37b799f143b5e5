"""The history of SQL statements."""
