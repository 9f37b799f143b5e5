"""Global init scripts."""
