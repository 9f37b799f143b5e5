"""Builds a wheel of a package that exists only as source.

A build runs the package's own code. So it is a program of the node's sandbox, which the node host starts like an init script,
with the node's `pip` and network. What comes out counts as a wheel of the cluster's users: it is read without following links,
and the machine's cache gives it to nobody who does not bring the same bytes.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
from pathlib import Path

from brickyard.agent.host import MAX_TEXT
from brickyard.agent.libraries import programs
from brickyard.agent.libraries.installer import LibraryError
from brickyard.agent.state import NodeState
from brickyard.machine import files

LIMIT_S = 600.0
MAX_WHEEL = 4 << 30
_WHEEL = re.compile(r"[A-Za-z0-9._+!-]+\.whl")


async def build(node: NodeState, requirement: str, repo: str) -> Path:
    """Builds the newest version that the requirement allows; returns the wheel, which stays as long as the node's libraries.
    Raises LibraryError with the last lines of the build, and HostError. If this is cancelled, the build goes on, and the next
    call waits for it."""
    return await programs.in_background(node, (requirement, repo), lambda: _build(node, requirement, repo))


async def _build(node: NodeState, requirement: str, repo: str) -> Path:
    node.say(f"building a wheel of {requirement}, which exists only as source")
    async with programs.run(node, "build", lambda out: program(requirement, repo, out), limit_s=LIMIT_S) as (ended, out):
        if not ended.well:
            raise LibraryError(_said(node, requirement, ended.message, ended.tail))
        return await asyncio.to_thread(_take, out, node.config.libraries_dir / "built", requirement)


def program(requirement: str, repo: str, out: Path) -> str:
    """The shell script that builds. `out` and its parent belong to the sandbox."""
    words = ["python", "-m", "pip", "wheel", "--no-deps", "--no-cache-dir", "--no-input", "--wheel-dir", str(out)]
    words += ["--index-url", repo] if repo else []
    return f"#!/bin/sh\nexec {shlex.join([*words, '--', requirement])} 2>&1\n"


def _said(node: NodeState, requirement: str, message: str, tail: str) -> str:
    text = f"{requirement} exists only as source, and its build failed: {message}\n{tail}\n"
    return node.redactor.text(text)[: MAX_TEXT - 200] + "Build a wheel of it elsewhere (pip wheel), and install that as whl."


def _take(out: Path, built: Path, requirement: str) -> Path:
    """Copies the wheel out of the sandbox, into a directory of its own in `built`."""
    found = [name for name, _ in files.list_files(out) if _WHEEL.fullmatch(name)]
    if len(found) != 1:
        raise LibraryError(f"the build of {requirement} made {len(found)} wheels; one was expected")
    directory, left = built / out.stem, MAX_WHEEL
    directory.mkdir(parents=True)
    with os.fdopen(files.open_below(out, found[0]), "rb") as source, (directory / found[0]).open("xb") as target:
        while chunk := source.read(1 << 20):  # users may still write to it
            left -= target.write(chunk)
            if left < 0:
                raise LibraryError(f"the build of {requirement} made a wheel of more than 4 GiB")
    return directory / found[0]
