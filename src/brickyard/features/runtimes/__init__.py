"""Spark runtimes of the server's machine."""
