"""What is attached to clusters: one table for each part. Exit code 1 when a limit is missed (marked ✗).

Arguments: names of parts, by default all: starts, libraries, files, logs, metrics, tables. Each takes less than two minutes once
the runtime is installed; on a machine that does something else as well, only what is processor time means much. --seconds S: for
how long to measure starts, 90 by default; more rounds say more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bench import (
    _attached_files,
    _attached_libraries,
    _attached_logs,
    _attached_metrics,
    _attached_starts,
    _attached_tables,
)
from bench._harness import options

PARTS: Mapping[str, Callable[[], int]] = {
    "starts": _attached_starts.main,
    "libraries": _attached_libraries.main,
    "files": _attached_files.main,
    "logs": _attached_logs.main,
    "metrics": _attached_metrics.main,
    "tables": _attached_tables.main,
}


def main() -> int:
    given = options(__doc__, {"part": tuple(PARTS)}, seconds=_attached_starts.SECONDS)
    if unknown := [name for name in given.part if name not in PARTS]:
        raise SystemExit(f"there is no part {unknown[0]}; there are {', '.join(PARTS)}")
    return max(_attached_starts.main(given.seconds) if name == "starts" else PARTS[name]() for name in given.part)


if __name__ == "__main__":
    raise SystemExit(main())
