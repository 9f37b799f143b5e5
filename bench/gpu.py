"""The /v1/clusters API: snapshots, what its dialect costs, and ports. Exit code 1 when a limit is missed (marked ✗)."""

from __future__ import annotations

import sys
from collections.abc import Callable

from bench import _gpu_calls, _gpu_ports, _gpu_snapshots


def main() -> int:
    parts: tuple[Callable[[], int], ...] = (_gpu_snapshots.main, _gpu_calls.main, _gpu_ports.main)
    return max(part() for part in parts)


if __name__ == "__main__":
    sys.exit(main())
