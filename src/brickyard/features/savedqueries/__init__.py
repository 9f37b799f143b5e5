"""The Queries API: SQL that people save, and run as tasks of jobs."""
