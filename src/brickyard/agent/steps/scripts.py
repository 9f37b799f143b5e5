"""SCRIPTS: run the init scripts, one by one, as programs of the sandbox that the node host starts (`node/host/scripts.py`).

The JVM starts beside them where nothing that it needs can depend on them (`converge.starts_early`): it has no role yet, and so
no Spark runs.

Objects are fetched first, all of them, while no user's code has run on the node: what runs is what the specification names. Files
are read when it is their turn, by the node host and so from inside the sandbox: an earlier script may have made one. The first
script that fails ends the node.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from brickyard.agent.converge import Stage, starts_early
from brickyard.agent.host import MAX_TAIL, MAX_TEXT, HostError, HostGone
from brickyard.agent.state import NodeState, script_said
from brickyard.agent.steps import start
from brickyard.agent.steps.work import Work
from brickyard.domain.decoding import converter
from brickyard.domain.node import Role
from brickyard.domain.places import Place
from brickyard.domain.scripts import MAX_SCRIPT, InitScript, ScriptResult, ScriptsReport, ScriptStatus
from brickyard.logs.transfers import Job, TransferFailed, credentials, run_patiently
from brickyard.machine import files
from brickyard.runtime.node.documents import ProgramRun

FETCHES_AT_ONCE = 3
GRACE_S = 30.0  # beyond a script's limit, to read it and to answer


class _Outcome(msgspec.Struct):
    """What the node host says of a script."""

    status: ScriptStatus
    seconds: float = 0.0
    message: str = ""
    tail: str = ""


_to_outcome = converter(_Outcome)


async def _scripts(node: NodeState) -> None:
    if node.current.stage >= Stage.STARTED or not starts_early(node.assignment):
        await _run_all(node)
        return
    starting = asyncio.create_task(_prepare(node))
    try:
        await _run_all(node)
        node.progress(start.WORK.progress)
        await starting
    finally:
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
    node.advance(Stage.STARTED)


async def _prepare(node: NodeState) -> None:
    try:
        async with asyncio.timeout(start.LIMIT_S):
            await start.prepare(node)
    except TimeoutError as error:
        raise HostError("TIMEOUT", f"{start.WORK.progress} took longer than {start.LIMIT_S:g} s") from error


async def _run_all(node: NodeState) -> None:
    scripts, results, began = node.assignment.init_scripts, [], time.monotonic()
    node.update_unhurried(scripts=ScriptsReport(running=True))
    directory = node.config.node_dir / "scripts"
    await asyncio.to_thread(files.make_empty, directory)
    fetched = await _fetch_all(node, scripts, directory)
    stamp = time.strftime("%Y%m%d_%H%M%S", time.gmtime())
    for number, script in enumerate(scripts):
        node.progress(f"init script {number + 1} of {len(scripts)}: {script.name}")
        node.say(f"init script {number + 1} of {len(scripts)}: {script.address}")
        outcome = await _run(node, number, script, fetched.get(number, ""), stamp)
        seconds = round(outcome.seconds)
        if outcome.status is not ScriptStatus.SUCCEEDED:
            raise _failed(node, number, outcome)
        results.append(ScriptResult(status=outcome.status, seconds=seconds))
        node.update_unhurried(scripts=ScriptsReport(running=True, results=tuple(results)))
    node.update_unhurried(scripts=ScriptsReport(results=tuple(results)))
    node.say(f"init scripts took {time.monotonic() - began:.3f} s")
    node.current = msgspec.structs.replace(node.current, scripted=True)


def _failed(node: NodeState, number: int, outcome: _Outcome) -> HostError:
    """Reports the failure of a script; returns the error that ends the node."""
    script = node.assignment.init_scripts[number]
    message = f"{outcome.message} Last lines: {outcome.tail[-MAX_TEXT // 2 :]}" if outcome.tail else outcome.message
    result = ScriptResult(status=outcome.status, seconds=round(outcome.seconds), message=message)
    node.close_scripts(result, number)
    said = f"{script_said(node.assignment, number)} failed on {_place_of(node)}: {outcome.message}"
    return HostError(script.failure, said, log_tail=outcome.tail or "(it printed nothing)")


def _place_of(node: NodeState) -> str:
    role = "the driver" if node.is_driver else "a worker"
    return f"{role}, node {node.config.node_host} ({node.config.instance_id})"


# ── objects ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def _fetch_all(node: NodeState, scripts: Sequence[InitScript], directory: Path) -> dict[int, str]:
    """Fetches the scripts that are objects. Returns where they are now, by number."""
    wanted = {number: script.place for number, script in enumerate(scripts) if script.place and script.place.is_object}
    if not wanted:
        return {}
    node.progress(f"fetching init scripts: {', '.join(place.name for place in wanted.values())}"[:MAX_TEXT])
    turns = asyncio.Semaphore(FETCHES_AT_ONCE)
    paths = {number: str(directory / f"{number:02}.object") for number in wanted}

    async def fetch(place: Place, path: str) -> TransferFailed | None:
        job = Job(place=place, local=path, max_bytes=MAX_SCRIPT, limit_s=node.config.init_script_timeout_s)
        env = credentials(
            place.kind, cluster=node.variables, machine=os.environ, endpoint=place.endpoint,
            rules=node.config.machine_credentials,
        )  # fmt: skip
        try:
            async with turns:
                await run_patiently(job, env=env, python=node.config.python, network=node.networks.descriptors)
        except TransferFailed as error:
            return error
        return None

    done = await asyncio.gather(*(fetch(place, paths[number]) for number, place in wanted.items()))
    for number, error in zip(wanted, done, strict=True):
        if error is not None:
            text = f"it could not be fetched: {error}."
            raise _failed(node, number, _Outcome(ScriptStatus.FAILED_FETCH, message=text))
    return paths


# ── one script ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def _run(node: NodeState, number: int, script: InitScript, fetched: str, stamp: str) -> _Outcome:
    """Runs a script to its end. Raises HostError."""
    if node.host is None:
        raise HostGone
    limit_s, address = node.config.init_script_timeout_s, node.config.node_host.replace(".", "_").replace(":", "_")
    asked: ProgramRun = {
        "number": number, "name": script.name, "content": script.content, "path": fetched or _seen_path(node, script.place),
        "env": _environment(node), "node_dir": str(node.config.node_dir), "manifest": node.manifest_document,
        "logs": f"init_scripts/{node.cluster_id}_{address}", "stamp": stamp, "limit_s": limit_s, "max_bytes": MAX_SCRIPT,
    }  # fmt: skip
    try:
        answer = await node.host.call("script_run", timeout_s=limit_s + GRACE_S, **asked)
    except HostError as error:
        if error.code != "TIMEOUT":
            raise
        text = f"it could neither be read nor run within {limit_s + GRACE_S:g} s; its storage may not answer."
        return _Outcome(ScriptStatus.FAILED_FETCH, seconds=limit_s + GRACE_S, message=text)
    try:
        outcome = _to_outcome(answer)
    except msgspec.ValidationError as error:
        raise HostError(script.failure, f"{script_said(node.assignment, number)}: the node's answer makes no sense") from error
    hide = node.redactor.text
    outcome.message, outcome.tail = hide(outcome.message)[:MAX_TEXT], hide(outcome.tail)[-MAX_TAIL:]
    return outcome


def _seen_path(node: NodeState, place: Place | None) -> str:
    """Where the node host finds a file. Without isolation, the workspace's trees are where they are on the machine."""
    if place is None or place.is_object:
        return ""
    for tree in () if node.walled else node.config.trees:
        if place.node_path.startswith(tree.target + "/"):
            return tree.source + place.node_path.removeprefix(tree.target)
    return place.node_path


def _environment(node: NodeState) -> dict[str, str]:
    """The documented variables, and the cluster's own."""
    wanted = node.assignment
    worker = wanted.role is Role.WORKER
    return {
        **node.variables,
        "DB_CLUSTER_ID": wanted.cluster_id,
        "DB_CLUSTER_NAME": wanted.cluster_name,
        "DB_IS_DRIVER": "FALSE" if worker else "TRUE",
        "DB_DRIVER_IP": wanted.driver_host if worker else node.config.node_host,
        "DB_CONTAINER_IP": node.config.node_host,
        "DB_INSTANCE_TYPE": wanted.node_type_id,
        "DB_PYTHON_VERSION": node.manifest.python_version if node.manifest is not None else "",
        "DB_IS_JOB_CLUSTER": "TRUE" if wanted.job_cluster else "FALSE",
    }


WORK = Work(_scripts, progress="preparing init scripts")
