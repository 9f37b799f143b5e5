"""Spark runtimes: catalogue, installer, and the scripts that run inside a runtime's own interpreter."""
