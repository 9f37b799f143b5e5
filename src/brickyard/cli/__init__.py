"""The brickyard command."""

from __future__ import annotations


def main() -> int:
    """Run the command line; returns the exit code. The only import here is the one that it takes."""
    from brickyard.cli.main import run  # noqa: PLC0415 - `import brickyard.cli.x` must not load click

    return run()
