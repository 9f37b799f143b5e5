"""tcp port mappings: a process that listens and carries bytes (`__main__.py`), how the server speaks to it (`process.py`), and
the loop that tells it what to do (`loop.py`)."""
