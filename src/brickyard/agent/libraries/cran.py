"""Installs R packages from CRAN on a node that has R.

Installing a package runs its own code and maybe a compiler. So it is a program of the node's sandbox, as a build of a wheel is
(`builds.py`), with the node's network. What comes out is unpacked to where only the agent writes (`environment.r_libraries`).
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from brickyard.agent.host import MAX_TEXT
from brickyard.agent.libraries import environment, programs
from brickyard.agent.libraries.installer import LibraryError
from brickyard.agent.state import NodeState
from brickyard.domain.libraries import RCranLibrary
from brickyard.machine import files
from brickyard.machine.cranrepo import repository

LIMIT_S = 3600.0  # packages come as source, and some compile for long
MAX_BYTES, MAX_FILES = 4 << 30, 200_000  # of one library with what it requires
DEFAULT = "https://cloud.r-project.org"  # where R on the node is set to none

# In a sandbox without R, this makes nothing and ends well. `install.packages` only warns of what it could not install.
_SHELL = """#!/bin/sh
exec 2>&1
command -v Rscript >/dev/null || exit 0
mkdir {out} {out}/library || exit 1
cat >{out}/install.R <<'END_OF_PROGRAM'
{program}END_OF_PROGRAM
exec Rscript {out}/install.R {package} {out} {repo}
"""
_PROGRAM = """args <- commandArgs(TRUE)
package <- args[1]
new <- file.path(args[2], "library")
options(warn = 1, timeout = max(300, getOption("timeout")))
repos <- if (length(args) > 2) c(CRAN = args[3]) else getOption("repos")
repos[repos == "@CRAN@"] <- "{default}"
.libPaths(c(new, .libPaths()))
install.packages(package, lib = new, repos = repos)
setwd(new)
if (!file.exists(file.path(package, "DESCRIPTION"))) quit(status = 1)
tar(file.path(args[2], "packages.tar"), files = list.files(), compression = "none", tar = "internal")
"""


async def install(node: NodeState, library: RCranLibrary) -> bool:
    """Installs a package with what it requires. Returns False if the node has no R. Raises LibraryError with the installer's last
    lines, and HostError. If this is cancelled, the installation goes on, and the next call waits for it."""
    return await programs.in_background(node, library, lambda: _install(node, library))


async def _install(node: NodeState, library: RCranLibrary) -> bool:
    repo = library.repo or repository(os.environ)
    async with programs.run(node, "cran", lambda out: program(library.package, repo, out), limit_s=LIMIT_S) as (ended, out):
        if not ended.well:
            said = f"R could not install {library.package}: {ended.message}\n{ended.tail}"
            raise LibraryError(node.redactor.text(said)[:MAX_TEXT])
        if not await asyncio.to_thread(out.is_dir):
            return False
        await asyncio.to_thread(_take, out, environment.r_libraries(node.config)[1])
        return True


def program(package: str, repo: str, out: Path) -> str:
    """The shell script that installs into `out`, which must not exist, and packs the result: out/packages.tar."""
    quoted = {"out": shlex.quote(str(out)), "package": shlex.quote(package), "repo": shlex.quote(repo) if repo else ""}
    return _SHELL.format(program=_PROGRAM.format(default=DEFAULT), **quoted)


# ── what comes out of the sandbox ───────────────────────────────────────────────────────────────────────────────────────────────


def _take(out: Path, target: Path) -> None:
    """Unpacks what the sandbox has packed, and puts it in place package by package. A package that is there already is replaced:
    R installs one again only if another one requires a newer version."""
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="R-") as name:
        new = Path(name, "new")
        new.mkdir()
        try:
            with os.fdopen(files.open_below(out, "packages.tar"), "rb") as file:
                unpack(file, new)
        except (tarfile.TarError, ValueError) as error:
            raise LibraryError(f"what R installed cannot be read: {error}") from error
        for package in sorted(new.iterdir()):
            if (target / package.name).exists():
                (target / package.name).rename(Path(name, package.name))
            package.rename(target / package.name)


def unpack(file: IO[bytes], target: Path) -> None:
    """Unpacks files and directories that lie in `target`, and nothing else. Raises ValueError for names that lead elsewhere,
    TarError for what is no archive, and LibraryError for too much."""
    with tarfile.open(fileobj=file, mode="r:") as archive:
        for member in _bounded(archive):
            parts = PurePosixPath(member.name).parts
            if not parts or parts[0] == "/" or ".." in parts:
                raise ValueError(f"a file is named {member.name!r}")
            path = target.joinpath(*parts)
            if member.isdir():
                path.mkdir(mode=0o755, parents=True, exist_ok=True)
            elif member.isreg() and (source := archive.extractfile(member)) is not None:
                path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
                with path.open("xb") as copy:
                    shutil.copyfileobj(source, copy, 1 << 20)
                path.chmod(0o755 if member.mode & 0o100 else 0o644)


def _bounded(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    left = MAX_BYTES
    for number, member in enumerate(archive):
        left -= max(0, member.size)
        if left < 0 or number >= MAX_FILES:
            raise LibraryError(f"it takes more than {MAX_BYTES >> 30} GiB or {MAX_FILES} files")
        yield member
