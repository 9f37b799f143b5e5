"""The node's code among modules of users that have the same names."""

from __future__ import annotations

from pathlib import Path

from brickyard.runtime import NODE_CODE

# A line of Python that makes the node's package `_brickyard_node` of its process, as `start.py` does for its programs.
MOUNT = f"__import__('runpy').run_path({str(NODE_CODE / 'start.py')!r})['mount']()"
FILES = sorted(NODE_CODE.rglob("*.py"))
OURS = {"_brickyard_node", *(path.parent.name if path.stem == "__init__" else path.stem for path in FILES)} - {NODE_CODE.name}
THEIRS = "this module is a user's"


def namesakes(directory: Path) -> Path:
    """Fill it with modules that have the names of ours, and cannot be imported."""
    for name in OURS:
        (directory / f"{name}.py").write_text(f"raise ImportError({THEIRS!r})\n")
    return directory
