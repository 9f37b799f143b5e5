"""Prints the files whose tests failed in a run, a line each: `python -m tests.support.failed CACHE_DIR`, with the run's
`cache_dir`. Prints nothing if a file could not even be imported: that fails again."""

from __future__ import annotations

import json
import sys
from pathlib import Path


def failed_files(cache_dir: Path) -> list[str]:
    """The paths as pytest takes them, sorted."""
    try:
        failed: dict[str, bool] = json.loads((cache_dir / "v" / "cache" / "lastfailed").read_text())
    except FileNotFoundError:
        return []
    if any("::" not in test for test in failed):
        return []
    return sorted({test.partition("::")[0] for test in failed})


if __name__ == "__main__":
    print(*failed_files(Path(sys.argv[1])), sep="\n", end="")
