"""What TPC-H and TPC-DS have in common: how their data is made, and when two answers are the same."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

from bench._harness import program

_ROUNDING = Decimal("1e-9")  # of the larger one of two numbers


def generate(
    generator: Sequence[str], target: Path, title: str, scale: float, *, most: float, tables: Sequence[str] = ()
) -> Path:
    """Makes a directory with a Parquet file for each table, unless it is there, and returns it. `generator`: the program of a
    Python package, and its first arguments. `tables`: those that must be there. Raises RuntimeError."""
    name, *arguments = generator
    if not 0 < scale <= most:
        raise RuntimeError(f"--scale is {scale:g}, and must be more than 0 and at most {most}")
    if target.exists():
        return target
    part = target.with_name(f"{target.name}.part")  # renamed when it is complete
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    print(f"making the data of {title} at scale {scale:g} in {target}", file=sys.stderr)
    installed = program(f"{name}>=4", name, target.parent / "generator")
    command = [str(installed), *arguments, "parquet", "--scale-factor", f"{scale:g}", "--output-dir", str(part)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    if missing := [each for each in tables if not (part / f"{each}.parquet").is_file()]:
        raise RuntimeError(f"{name} made no file for {', '.join(missing)}")
    part.rename(target)
    return target


def equal(a: str | None, b: str | None) -> bool:
    """Whether two values of answers, as text, are the same: numbers within rounding."""
    if a == b:
        return True
    try:
        one, other = Decimal(a or "x"), Decimal(b or "x")
    except ArithmeticError:
        return False
    return abs(one - other) <= _ROUNDING * max(abs(one), abs(other))
