"""What the installation's programs have in common: their arguments, their JSON lines, and their scratch directory."""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # Python 3.8 cannot evaluate these
    from ..documents import ManifestDocument

    Work = Callable[[ManifestDocument, Path, Path], None]


def say(message: str) -> None:
    print(json.dumps({"message": message}), flush=True)


def first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


def run_program(work: Work, *, description: str, out: str, scratch_in_out: bool = False) -> int:
    """Runs `work(manifest, out, scratch)`, and prints an {"error": ...} line if it raises. Returns the exit code.

    `out` is the help text of `--out`. `scratch_in_out`: `--out` is a directory and contains the scratch directory, so that
    leftovers of a killed run are removed with it.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--manifest", type=Path, required=True, help="runtime.json of the runtime")
    parser.add_argument("--out", type=Path, required=True, help=out)
    options = parser.parse_args()
    if scratch_in_out:
        options.out.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=".brickyard-", dir=options.out if scratch_in_out else None))
    try:
        manifest: ManifestDocument = json.loads(options.manifest.read_bytes())
        work(manifest, options.out, scratch)
    except Exception as error:
        print(json.dumps({"error": first_line(error)}), flush=True)
        return 1
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return 0
