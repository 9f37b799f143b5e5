"""The /v1/clusters API: snapshots, what its dialect costs, and ports. Exit code 1 when a limit is missed (marked ✗)."""

from __future__ import annotations

import sys
from collections.abc import Callable

from bench import _v1_calls, _v1_ports, _v1_snapshots


def main() -> int:
    parts: tuple[Callable[[], int], ...] = (_v1_snapshots.main, _v1_calls.main, _v1_ports.main)
    return max(part() for part in parts)


if __name__ == "__main__":
    sys.exit(main())
