"""Spark runtimes: catalogue, installer, and `node/`, which runs inside a runtime's own interpreter."""

from pathlib import Path

NODE_CODE = Path(__file__).parent / "node"  # a runtime's interpreter runs `start.py` in this directory
