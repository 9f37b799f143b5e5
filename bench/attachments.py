"""What is attached to clusters: one table for each part (`_attached_NAME.py`). Exit code 1 when a limit is missed (marked ✗)."""

from __future__ import annotations

import sys

from bench import _attached_files, _attached_scripts


def main() -> int:
    return max([_attached_scripts.main(), _attached_files.main()])


if __name__ == "__main__":
    sys.exit(main())
