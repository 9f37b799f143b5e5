"""Snapshots of directories: every content is stored once, compressed, under its digest.

`chunks.py` is the store, `manifest.py` what a snapshot holds, `taking.py` and `restoring.py` make one and use one. They block,
take long, and read what users' code has written, so they run in a short-lived process (`__main__.py`).
"""
