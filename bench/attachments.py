"""What is attached to clusters: one table for each part (`_attached_NAME.py`). Exit code 1 when a limit is missed (marked ✗)."""

from __future__ import annotations

import sys
from collections.abc import Callable

from bench import (
    _attached_files,
    _attached_libraries,
    _attached_logs,
    _attached_metrics,
    _attached_scripts,
    _attached_tables,
)


def main() -> int:
    parts: tuple[Callable[[], int], ...] = (
        _attached_scripts.main, _attached_libraries.main, _attached_files.main, _attached_logs.main, _attached_metrics.main,
        _attached_tables.main,
    )  # fmt: skip
    return max(part() for part in parts)


if __name__ == "__main__":
    sys.exit(main())
