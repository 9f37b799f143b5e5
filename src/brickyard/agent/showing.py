"""Changes what a running node sees of its machine (`reveal.py`)."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from brickyard.agent.state import NodeState
from brickyard.sandbox import launcher

TIMEOUT_S = 20.0  # it normally takes about 30 ms


async def show(node: NodeState, shown: Mapping[str, Path], *, read_only: bool = False) -> str:
    """Shows directories, by where they appear, to the node, which has a host and walls. Returns why that failed, or "" if it
    worked."""
    assert node.host is not None  # noqa: S101 - the caller's to see to
    command = launcher.reveal(
        node.config.python, shown=shown, launcher=node.host.pid, kind=node.status.isolation, read_only=read_only
    )  # fmt: skip
    return await _run(command)


async def forbid_links(node: NodeState, targets: Sequence[str]) -> str:
    """Has Spark follow no links in these directories, which users write. Returns why that failed, or "" if it worked."""
    assert node.host is not None  # noqa: S101 - the caller's to see to
    return await _run(launcher.without_links(node.config.python, targets=targets, launcher=node.host.pid))


async def _run(command: Sequence[str]) -> str:
    try:
        done = await asyncio.to_thread(
            subprocess.run, command, env={}, capture_output=True, timeout=TIMEOUT_S, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    return (lines[-1] if lines else f"exit code {done.returncode}") if done.returncode else ""
