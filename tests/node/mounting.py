"""A line of Python that makes the node's package `_brickyard_node` of its process, as `start.py` does for its programs."""

from __future__ import annotations

from brickyard.runtime import NODE_CODE

MOUNT = f"__import__('runpy').run_path({str(NODE_CODE / 'start.py')!r})['mount']()"
