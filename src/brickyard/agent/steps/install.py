"""INSTALL: install the runtime with `python -m brickyard.runtime install KEY --cache-dir DIR --json`, unless it is installed."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path

import msgspec

from brickyard.agent.config import AgentConfig
from brickyard.agent.converge import Stage
from brickyard.agent.host import MAX_TEXT, HostError
from brickyard.agent.state import NodeState
from brickyard.agent.steps.work import Work
from brickyard.domain.runtimes import RuntimeManifest
from brickyard.runtime.sparkclasses import with_classes
from brickyard.sandbox.launcher import enter

_decode_runtime_manifest = msgspec.json.Decoder(RuntimeManifest).decode


FAILURE = "SPARK_IMAGE_DOWNLOAD_FAILURE"


async def _install(node: NodeState) -> None:
    node.manifest = await runtime(node, node.assignment.runtime)
    node.advance(Stage.INSTALLED)


async def runtime(node: NodeState, key: str) -> RuntimeManifest:
    """Returns the runtime and protects it from removal. Raises HostError."""
    await asyncio.to_thread(node.use.begin, node.config.environments.get(key) or key)
    return await ensure(node.config, key, progress=node.progress)


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
    pipe = asyncio.subprocess.PIPE
    try:
        # Under the launcher, so that the installer and the package installers it starts end when we do.
        process = await asyncio.create_subprocess_exec(
            *enter(config.python, "plain", command), stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe,
            limit=1 << 20, start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise HostError(FAILURE, f"the installer cannot be started: {error}") from error
    errors: collections.deque[str] = collections.deque(maxlen=10)
    drain = asyncio.create_task(_drain(process.stderr, errors))
    try:
        last = await _follow(process.stdout, progress)
        code = await process.wait()
        await drain
    finally:
        drain.cancel()
        await _end(process)
    if last.manifest is not None:
        return last.manifest
    problem = last.error if isinstance(last.error, _Problem) else _Problem(message=last.error or _last_words(errors, code))
    raise HostError(problem.code or FAILURE, f"runtime {runtime} cannot be installed: {problem.message}")


async def _follow(stream: asyncio.StreamReader | None, progress: Callable[[str], None]) -> _Line:
    """Reports the progress; returns the last line with a manifest or an error, or an empty one."""
    last = _Line()
    while stream is not None and (text := await stream.readline()):
        try:
            line = _decode_line(text)
        except msgspec.MsgspecError:
            continue  # output from a package installer
        if line.message:
            progress(line.message[:MAX_TEXT])
        if line.manifest is not None or line.error is not None:
            last = line
    return last


async def _drain(stream: asyncio.StreamReader | None, lines: collections.deque[str]) -> None:
    while stream is not None and (data := await stream.read(16 << 10)):
        lines.extend(data.decode(errors="replace").splitlines())


def _last_words(errors: collections.deque[str], code: int) -> str:
    return " | ".join(line.strip() for line in errors if line.strip())[-MAX_TEXT:] or f"the installer ended with code {code}"


async def _end(process: asyncio.subprocess.Process) -> None:
    """Ends the installer's whole process tree; the launcher does so at SIGTERM."""
    for sig in (signal.SIGTERM, signal.SIGKILL):
        if process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, sig) if sig is signal.SIGKILL else process.send_signal(sig)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2):
                await process.wait()


WORK = Work(_install, progress="preparing the runtime", failure=FAILURE)
