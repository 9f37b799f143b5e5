"""Makes a release in dist/: `./dev release`. One commit gives the same bytes each time, with the same Node.

Everything comes from the commit that is checked out: what is not committed is left out, and is told.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import uv

from brickyard.machine.packageindex import uv_environment
from release import sbom

ROOT = Path(__file__).resolve().parents[1]
PAGE = "brickyard/webui/index.html"
CHECKSUMS = "SHA256SUMS"


class ReleaseError(Exception):
    """One sentence: what went wrong and what to do."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="./dev release", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="the directory (default: dist)")
    try:
        for made in release(parser.parse_args(arguments).out):
            print(made)
    except (ReleaseError, OSError) as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


def release(out: Path) -> list[Path]:
    """Makes all of it and returns the files. `out` gets them together, when all are made; other files there stay."""
    if git("status", "--porcelain"):
        print("release: what is not committed is left out.", file=sys.stderr)
    made_at = int(git("log", "-1", "--format=%ct"))
    with tempfile.TemporaryDirectory() as scratch:
        source, made = Path(scratch, "source"), Path(scratch, "made")
        with tarfile.open(fileobj=io.BytesIO(committed())) as archive:
            archive.extractall(source, filter="data")
        build(source, made, made_at)
        wheel = next(made.glob("*.whl"))
        complete(wheel)
        name, version = wheel.name.split("-")[:2]
        bill = sbom.bill(source, version=version, made_at=datetime.fromtimestamp(made_at, UTC))
        (made / f"{name}-{version}.cdx.json").write_text(bill)
        (made / CHECKSUMS).write_text("".join(f"{sha256(each)}  {each.name}\n" for each in files(made)))
        out.mkdir(parents=True, exist_ok=True)
        return [Path(shutil.copy(each, out)) for each in files(made)]


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def committed() -> bytes:
    """The commit's files, as a tar archive."""
    return subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout


def build(source: Path, out: Path, made_at: int) -> None:
    """The source distribution, and the wheel from it: so the one is known to hold what the other needs."""
    locked = ("--build-constraints", str(source / "requirements" / "build.txt"), "--require-hashes")
    environment = {**os.environ, **uv_environment(os.environ), "SOURCE_DATE_EPOCH": str(made_at), "BRICKYARD_PAGE": "required"}
    done = subprocess.run([uv.find_uv_bin(), "build", "--out-dir", str(out), *locked, str(source)], check=False, env=environment)
    if done.returncode:
        raise ReleaseError("the build failed; what it said is above.")


def complete(wheel: Path) -> None:
    """Raises ReleaseError if the wheel has no web page."""
    if PAGE not in zipfile.ZipFile(wheel).namelist():
        raise ReleaseError(f"{wheel.name} has no web page.")


def files(made: Path) -> list[Path]:
    return sorted(each for each in made.iterdir() if not each.name.startswith("."))


def sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


if __name__ == "__main__":
    sys.exit(main())
