"""The history of SQL statements: who ran what, for how long, and how it ended."""
