"""Jars of a Maven library that the runtime has already.

The runtime's classes come first on every class path. Of a second copy (another Hadoop, Jackson, log4j, Scala) only those classes
would count that the runtime's version lacks: a mixture of two versions that nobody has tested.
"""

from __future__ import annotations

from pathlib import Path

SHARE = 2 / 3  # of a jar's classes: another version of the same library has a few of its own
LIST = "left-out.txt"  # in the library's entry of the cache: names of jars, a line each
# Runs in the runtime's interpreter, in the installer's sandbox: it reads what strangers have written.
_LOOK = """
import pathlib, sys, zipfile
spark, directory, listed, named, share = sys.argv[1:]
def classes(path):
    with zipfile.ZipFile(path) as jar:
        return [each for each in jar.namelist() if each.endswith(".class") and not each.startswith(("META-INF/", "module-info"))]
brought = {path: set(classes(path)) for path in pathlib.Path(directory).iterdir() if not path.name.startswith(named)}
wanted, there = set().union(*brought.values()), set()
for path in pathlib.Path(spark).glob("*.jar") if wanted else ():
    there.update(wanted.intersection(classes(path)))
found = [path for path, names in brought.items() if names and len(names & there) >= float(share) * len(names)]
for path in found:
    path.unlink()
pathlib.Path(listed).write_text("".join(path.name + chr(10) for path in sorted(found)))
"""


def removal(python: str, spark_home: str, directory: Path, listed: Path, *, named: str) -> list[str]:
    """Returns the command that removes duplicates from a directory of jars, and lists them in a file. A jar whose name begins
    with `named` stays: it is what the user asked for."""
    return [python, "-I", "-c", _LOOK, f"{spark_home}/jars", str(directory), str(listed), named, str(SHARE)]


def left_out(entry: Path) -> tuple[str, ...]:
    """Returns the names of the jars that were removed from a library's entry of the cache. Blocks."""
    listed = entry / LIST
    return tuple(listed.read_text().splitlines()) if listed.exists() else ()


def sentence(names: tuple[str, ...]) -> str:
    """Returns what the library's status says about them, or "" if there is none."""
    if not names:
        return ""
    jars = "1 jar that the runtime has" if len(names) == 1 else f"{len(names)} jars that the runtime has"
    return f"Left out {jars}: {', '.join(name.removesuffix('.jar') for name in names)}"
