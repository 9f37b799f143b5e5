"""Runs programs that have users' rights and no more: in the node's sandbox, started by the node host as init scripts are."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable
from pathlib import Path
from typing import NamedTuple, TypeVar

from brickyard.agent.host import HostGone
from brickyard.agent.state import NodeState
from brickyard.machine import files
from brickyard.runtime.node.documents import ProgramRun

GRACE_S = 30.0  # beyond the limit, to answer

_Result = TypeVar("_Result")


class Ended(NamedTuple):
    """How a program ended: whether well, else a sentence about it, and the last lines that it printed."""

    well: bool
    message: str
    tail: str


@contextlib.asynccontextmanager
async def run(node: NodeState, kind: str, text: Callable[[Path], str], *, limit_s: float) -> AsyncIterator[tuple[Ended, Path]]:
    """Runs a shell script to its end. `text` makes it for the path of its output, a directory that it makes; this belongs to the
    sandbox, and is removed afterwards. What it prints goes to the node's logs, below libraries/. Raises HostError."""
    if node.host is None:
        raise HostGone
    name = f"{kind}-{secrets.token_hex(4)}"
    scripts = node.config.node_dir / "scripts"
    await asyncio.to_thread(scripts.mkdir, mode=0o700, exist_ok=True)
    out = scripts / f"{name}.out"
    asked: ProgramRun = {
        "number": 0, "name": f"{name}.sh", "content": base64.b64encode(text(out).encode()).decode(),
        "env": node.variables, "node_dir": str(node.config.node_dir), "manifest": node.manifest_document,
        "logs": "libraries", "stamp": time.strftime("%Y%m%d_%H%M%S"), "limit_s": limit_s, "max_bytes": 0,
    }  # fmt: skip
    try:
        answer = await node.host.call("program_run", timeout_s=limit_s + GRACE_S, **asked)
        well = answer.get("status") == "SUCCEEDED"
        yield Ended(well, str(answer.get("message", "")), str(answer.get("tail", ""))), out
    finally:
        await asyncio.to_thread(files.remove_tree, out)


async def in_background(node: NodeState, key: Hashable, work: Callable[[], Coroutine[None, None, _Result]]) -> _Result:
    """Does the work. If this is cancelled, the work goes on, and the next call with its key has the result: a start waits for
    libraries only for a while."""
    task: asyncio.Task[_Result] | None = node.background.get(key)
    if task is None:
        task = node.background[key] = asyncio.create_task(work())
        task.add_done_callback(lambda task: task.cancelled() or task.exception())  # it may fail while nobody waits
    try:
        return await asyncio.shield(task)
    finally:
        if task.done():
            node.background.pop(key, None)
