"""The brickyard command, also as `python -m brickyard`."""

from __future__ import annotations

from brickyard.interrupts import Importing


def main() -> None:
    """Entry point: see `cli.main`."""
    with Importing():
        from brickyard.cli import main as run  # noqa: PLC0415 - Ctrl-C is cared for first
    run()


if __name__ == "__main__":
    main()
