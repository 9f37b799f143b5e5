"""INSTALL: install the runtime with `python -m brickyard.runtime install KEY --cache-dir DIR --json`, unless it is installed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from brickyard.agent.config import AgentConfig
from brickyard.agent.converge import Stage
from brickyard.agent.host import MAX_TEXT, HostError
from brickyard.agent.state import NodeState
from brickyard.agent.steps.work import Work
from brickyard.domain.runtimes import RuntimeManifest
from brickyard.machine.children import Child
from brickyard.runtime.layers import needed, with_layers
from brickyard.runtime.sparkclasses import with_classes
from brickyard.sandbox.launcher import enter

_decode_runtime_manifest = msgspec.json.Decoder(RuntimeManifest).decode


FAILURE = "SPARK_IMAGE_DOWNLOAD_FAILURE"
LATER = "layers and packages"  # the work in the background
GRACE_S = 2.0  # for the launcher to end what the installer has started


async def _install(node: NodeState) -> None:
    node.manifest = await runtime(node, node.assignment.runtime, node.assignment.spark_conf)
    node.advance(Stage.INSTALLED)


async def runtime(node: NodeState, key: str, conf: Mapping[str, str]) -> RuntimeManifest:
    """Returns the runtime, with its layers for a cluster of that conf, and protects it from removal. Raises HostError."""
    await asyncio.to_thread(node.use.begin, node.config.environments.get(key) or key)
    manifest = await ensure(node.config, key, progress=node.progress)
    if node.config.train_runtimes and LATER not in node.background:
        node.background[LATER] = asyncio.create_task(_complete(node, key))
    return await with_needed(node, manifest, key, conf)


async def with_needed(node: NodeState, manifest: RuntimeManifest, key: str, conf: Mapping[str, str]) -> RuntimeManifest:
    """Returns the manifest with the layers that are there now. Installs those without which a cluster of that runtime and conf
    does not start. Raises HostError."""
    manifest = await asyncio.to_thread(with_layers, manifest, key)
    names = needed(manifest, key, conf)
    if not names:
        return manifest
    config = node.config
    command = [config.python, "-m", "brickyard.runtime", "layers", key, "--cache-dir", config.cache_dir, "--json"]
    last = await _run(config, [*command, *(f"--name={name}" for name in names)], node.progress)
    if last.error is not None:
        raise _failed(key, last)
    return await asyncio.to_thread(with_layers, manifest, key)


async def _complete(node: NodeState, key: str) -> None:
    """Installs the runtime's layers and its second layer of packages, where no server of this machine does. The node does not
    wait for them, and nothing depends on them: what failed is tried again by the next node."""
    try:
        for action, what in (("layers", "the runtime's layers"), ("packages", "the runtime's second layer of packages")):
            await _later(node, action, key, what)
    finally:
        node.background.pop(LATER, None)


async def _later(node: NodeState, action: str, key: str, what: str) -> None:
    config = node.config
    command = [config.python, "-m", "brickyard.runtime", action, key, "--cache-dir", config.cache_dir, "--patient"]
    try:
        child = await Child.start(enter(config.python, "plain", command), env=os.environ)
    except OSError as error:
        node.say(f"{what} cannot be installed: {error}")
        return
    try:
        child.close_input()
        while await child.line():
            pass
        if await child.ended():
            node.say(f"{what} cannot be installed: {' | '.join(child.tail)[-MAX_TEXT:]}")
    finally:
        await child.end(grace_s=GRACE_S)


class _Problem(msgspec.Struct):
    message: str = "it failed without a message"
    code: str = ""


class _Line(msgspec.Struct):
    """One line from the installer: progress, or at the end the manifest or an error."""

    message: str = ""
    manifest: RuntimeManifest | None = None
    error: _Problem | str | None = None


_decode_line = msgspec.json.Decoder(_Line).decode


def installed(config: AgentConfig, runtime: str) -> RuntimeManifest | None:
    """Returns the manifest if we know where the runtime is and it is complete: the manifest is written last. Returns None also
    if our classes still have to be compiled for it."""
    environment = config.environments.get(runtime)
    if not environment:
        return None
    try:
        data = Path(config.cache_dir, "runtimes", environment, "runtime.json").read_bytes()
        manifest = _decode_runtime_manifest(data)
        return with_classes(manifest, Path(config.node_code_dir))
    except (OSError, msgspec.MsgspecError):
        return None  # the installer finds out what is wrong with it


async def ensure(config: AgentConfig, runtime: str, *, progress: Callable[[str], None]) -> RuntimeManifest:
    """Returns the runtime's manifest, installing the runtime if needed. Raises HostError. Cancelling ends the installer
    immediately."""
    if manifest := await asyncio.to_thread(installed, config, runtime):
        return manifest
    command = [config.python, "-m", "brickyard.runtime", "install", runtime, "--cache-dir", config.cache_dir, "--json"]
    command += ["--training"] if config.train_runtimes else []
    last = await _run(config, command, progress)
    if last.manifest is not None:
        return last.manifest
    raise _failed(runtime, last)


async def _run(config: AgentConfig, command: Sequence[str], progress: Callable[[str], None]) -> _Line:
    """Runs an installer. Returns its last line with a manifest or an error, or what it ended with. Raises HostError."""
    try:
        # Under the launcher, so that the installer and the package installers it starts end when we do.
        child = await Child.start(enter(config.python, "plain", command), env=os.environ)
    except OSError as error:
        raise HostError(FAILURE, f"the installer cannot be started: {error}") from error
    try:
        child.close_input()
        last = await _follow(child, progress)
        code = await child.ended()
    finally:
        await child.end(grace_s=GRACE_S)
    if code and last.manifest is None and last.error is None:
        return _Line(error=" | ".join(child.tail)[-MAX_TEXT:] or f"the installer ended with code {code}")
    return last


def _failed(runtime: str, last: _Line) -> HostError:
    problem = last.error if isinstance(last.error, _Problem) else _Problem(message=last.error or "it ended without a manifest")
    return HostError(problem.code or FAILURE, f"runtime {runtime} cannot be installed: {problem.message}")


async def _follow(child: Child, progress: Callable[[str], None]) -> _Line:
    """Reports the progress; returns the last line with a manifest or an error, or an empty one."""
    last = _Line()
    while text := await child.line():
        try:
            line = _decode_line(text)
        except msgspec.MsgspecError:
            continue  # output from a package installer
        if line.message:
            progress(line.message[:MAX_TEXT])
        if line.manifest is not None or line.error is not None:
            last = line
    return last


WORK = Work(_install, progress="preparing the runtime", failure=FAILURE)
