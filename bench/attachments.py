"""What is attached to clusters: one table for each part. Exit code 1 when a limit is missed (marked ✗).

Arguments: names of parts, by default all: starts, libraries, files, logs, metrics, tables. Each takes less than two minutes once
the runtime is installed; on a machine that does something else as well, only what is processor time means much. --seconds S: for
how long to measure starts, 90 by default; more rounds say more.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping

from bench import (
    _attached_files,
    _attached_libraries,
    _attached_logs,
    _attached_metrics,
    _attached_starts,
    _attached_tables,
)

PARTS: Mapping[str, Callable[[], int]] = {
    "starts": _attached_starts.main,
    "libraries": _attached_libraries.main,
    "files": _attached_files.main,
    "logs": _attached_logs.main,
    "metrics": _attached_metrics.main,
    "tables": _attached_tables.main,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="*", help=", ".join(PARTS))
    parser.add_argument("--seconds", type=float, default=_attached_starts.SECONDS)
    options = parser.parse_args()
    asked = options.part or list(PARTS)
    if unknown := [name for name in asked if name not in PARTS]:
        parser.error(f"there is no part {unknown[0]}; there are {', '.join(PARTS)}")
    return max(_attached_starts.main(options.seconds) if name == "starts" else PARTS[name]() for name in asked)


if __name__ == "__main__":
    raise SystemExit(main())
