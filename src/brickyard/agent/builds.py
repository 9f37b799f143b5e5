"""Builds a wheel of a package that exists only as source.

A build runs the package's own code. So it is a program of the node's sandbox, which the node host starts like an init script,
with the node's `pip` and network. What comes out counts as a wheel of the cluster's users: it is read without following links,
and the machine's cache gives it to nobody who does not bring the same bytes.
"""

from __future__ import annotations

import asyncio
import base64
import os
import re
import secrets
import shlex
import time
from pathlib import Path

from brickyard.agent import files
from brickyard.agent.host import MAX_TEXT, HostGone
from brickyard.agent.installer import LibraryError
from brickyard.agent.state import NodeState

LIMIT_S = 600.0
GRACE_S = 30.0  # beyond the limit, to answer
MAX_WHEEL = 4 << 30
_WHEEL = re.compile(r"[A-Za-z0-9._+!-]+\.whl")


async def build(node: NodeState, requirement: str, repo: str, scratch: Path) -> Path:
    """Builds the newest version that the requirement allows; returns the wheel, which is in `scratch`. Raises LibraryError with
    the last lines of the build, and HostError."""
    if node.host is None or node.manifest is None:
        raise HostGone
    name = f"build-{secrets.token_hex(4)}"
    scripts = node.config.node_dir / "scripts"
    await asyncio.to_thread(scripts.mkdir, mode=0o700, exist_ok=True)
    out = scripts / f"{name}.out"
    node.say(f"building a wheel of {requirement}, which exists only as source")
    try:
        answer = await node.host.call(
            "program_run", timeout_s=LIMIT_S + GRACE_S, number=0, name=f"{name}.sh",
            content=base64.b64encode(program(requirement, repo, out).encode()).decode(), env=node.assignment.spark_env_vars,
            node_dir=str(node.config.node_dir), manifest=node.manifest, logs="libraries", stamp=time.strftime("%Y%m%d_%H%M%S"),
            limit_s=LIMIT_S, max_bytes=0,
        )  # fmt: skip
        if answer.get("status") != "SUCCEEDED":
            raise LibraryError(_said(node, requirement, answer.get("message", ""), answer.get("tail", "")))
        return await asyncio.to_thread(_take, out, scratch, requirement)
    finally:
        await asyncio.to_thread(files.remove_tree, out)


def program(requirement: str, repo: str, out: Path) -> str:
    """The shell script that builds. `out` and its parent belong to the sandbox."""
    words = ["python", "-m", "pip", "wheel", "--no-deps", "--no-cache-dir", "--no-input", "--wheel-dir", str(out)]
    words += ["--index-url", repo] if repo else []
    return f"#!/bin/sh\nexec {shlex.join([*words, '--', requirement])} 2>&1\n"


def _said(node: NodeState, requirement: str, message: object, tail: object) -> str:
    text = f"{requirement} exists only as source, and its build failed: {message}\n{tail}\n"
    return node.redactor.text(text)[: MAX_TEXT - 200] + "Build a wheel of it elsewhere (pip wheel), and install that as whl."


def _take(out: Path, scratch: Path, requirement: str) -> Path:
    """Copies the wheel out of the sandbox."""
    found = [name for name, _ in files.list_files(out) if _WHEEL.fullmatch(name)]
    if len(found) != 1:
        raise LibraryError(f"the build of {requirement} made {len(found)} wheels; one was expected")
    directory, left = scratch / f"{out.name}.taken", MAX_WHEEL
    directory.mkdir()
    with os.fdopen(files.open_below(out, found[0]), "rb") as source, (directory / found[0]).open("xb") as target:
        while chunk := source.read(1 << 20):  # users may still write to it
            left -= target.write(chunk)
            if left < 0:
                raise LibraryError(f"the build of {requirement} made a wheel of more than 4 GiB")
    return directory / found[0]
