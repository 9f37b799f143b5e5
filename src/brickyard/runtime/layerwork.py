"""Installs the layers of a runtime (`layers.py`), each complete or not at all. Whatever kills an installation, nothing of it
counts, and the next begins anew."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import time
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from brickyard.domain.runtimes import RuntimeManifest
from brickyard.machine import mavenrepo
from brickyard.machine.packageindex import uv_environment
from brickyard.runtime import maven
from brickyard.runtime.classes import compile_layer
from brickyard.runtime.installed import installed
from brickyard.runtime.inuse import RuntimeInUse, unused
from brickyard.runtime.layers import KIND, NEEDED, Failure, Layer, declared, failure_file, missing
from brickyard.runtime.lock import LOOK_S, at_work, sole
from brickyard.runtime.node.jvm.layers import NATIVE, USUAL
from brickyard.runtime.packages import NoRuntime
from brickyard.runtime.python import uv_binary
from brickyard.runtime.watch import CommandFailed, run_watched

LIMIT_S = 600.0
_MACHINES = {"x86_64": "amd64"}  # Java's names


def install_layers(
    environment: str,
    *,
    cache_dir: Path,
    names: Sequence[str] = USUAL,
    progress: Callable[[str], None] = lambda _: None,
    wait: Callable[[Callable[[], None]], None] | None = None,
    kind: str = KIND,
) -> list[str]:
    """Installs the named layers that are missing, unless another process of that kind does so now. Returns a sentence for each
    that failed: all else works without. `wait` returns when the installation may begin. Raises NoRuntime."""
    with sole(environment, cache_dir, kind) as alone:
        manifest = installed(environment, cache_dir)
        if manifest is None:
            raise NoRuntime
        lacking = missing(environment, cache_dir, names)
        if not alone or not lacking:
            return []
        if wait is not None:
            wait(lambda: None)
        problems = []
        for layer in lacking:
            try:
                _install(layer, manifest, progress)
            except (maven.ArtifactMissing, CommandFailed, OSError) as error:
                if installed(environment, cache_dir) is None:
                    raise NoRuntime from error
                problems.append(_failed(layer, manifest, error))
        _drop_older(manifest, cache_dir)
        return problems


def require_layers(
    environment: str, *, cache_dir: Path, names: Sequence[str], progress: Callable[[str], None] = lambda _: None
) -> list[str]:
    """Installs the named layers that are missing, or waits for another process that does so. Returns a sentence for each that
    failed. Raises NoRuntime."""
    told = False
    while lacking := missing(environment, cache_dir, names):
        if problems := install_layers(environment, cache_dir=cache_dir, names=names, progress=progress, kind=NEEDED):
            return problems
        if at_work(environment, cache_dir, NEEDED):
            if not told:
                progress(f"Waiting for {lacking[0].title}, which is being installed")
                told = True
            time.sleep(LOOK_S)
    if installed(environment, cache_dir) is None:
        raise NoRuntime
    return []


def _install(layer: Layer, manifest: RuntimeManifest, progress: Callable[[str], None]) -> None:
    """Raises ArtifactMissing, CommandFailed, OSError."""
    home = Path(manifest.home)
    if not layer.directory(home).is_dir():
        _fetch(layer, manifest, progress)
    if layer.sources:
        progress(f"Compiling the classes for {layer.title}")
        compile_layer(manifest, layer.sources, layer.jars_in(layer.directory(home)), layer.classes(home))
    failure_file(home, layer).unlink(missing_ok=True)


def _fetch(layer: Layer, manifest: RuntimeManifest, progress: Callable[[str], None]) -> None:
    """Puts everything of a layer into its directory that does not change with Brickyard. Raises as `_install`."""
    target = layer.directory(Path(manifest.home))
    draft = _draft(target)
    shutil.rmtree(draft, ignore_errors=True)  # of a killed installation
    draft.mkdir(parents=True)
    try:
        base = mavenrepo.repository(os.environ)
        for coordinates, sha256 in layer.jars:
            progress(f"Fetching {coordinates}")
            try:
                maven.fetch(maven.artifact(coordinates), draft, base=base, sha256=sha256, look=lambda: None)
            except maven.ArtifactMissing as error:
                raise maven.ArtifactMissing(f"{coordinates} is missing: {error}") from error
        if layer.native:
            progress(f"Unpacking {layer.title}")
            _unpack(layer.native.format(machine=_MACHINES.get(platform.machine(), platform.machine())), draft)
        if layer.python:
            progress(f"Fetching {layer.python.split()[0]}")
            _install_package(layer.python, draft, manifest)
        os.sync()  # the content is on the disk before anything names it
        draft.rename(target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _unpack(name: str, directory: Path) -> None:
    """Unpacks a library from the JAR that has it. Raises ArtifactMissing."""
    (directory / NATIVE).mkdir()
    target = directory / NATIVE / name.rpartition("/")[2]
    for jar in sorted(directory.glob("*.jar")):
        with zipfile.ZipFile(jar) as archive:
            if name in archive.namelist():
                with archive.open(name) as source, target.open("wb") as file:
                    shutil.copyfileobj(source, file)
                return
    raise maven.ArtifactMissing(f"there is no {name} in it: it has nothing for this machine's processor")


def _install_package(requirement: str, directory: Path, manifest: RuntimeManifest) -> None:
    """Installs a Python package without what it depends on: the runtime has that."""
    lock = directory / "package.txt"
    lock.write_text(requirement + "\n")
    environ = {key: value for key, value in os.environ.items() if key not in ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME")}
    command = (
        uv_binary(), "pip", "install", "--python", manifest.python, "--target", str(directory / "site"), "--require-hashes",
        "--no-deps", "--no-build", "--compile-bytecode", "-r", str(lock),
    )  # fmt: skip
    run_watched(command, watch=lambda _pid, _lines: None, environment=environ | uv_environment(os.environ), limit_s=LIMIT_S)


def _draft(target: Path) -> Path:
    return target.with_name(f"{target.name}.draft")


def _failed(layer: Layer, manifest: RuntimeManifest, error: Exception) -> str:
    """Records why a layer is missing, and returns it as a sentence."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    with contextlib.suppress(OSError):
        failure = Failure(message=lines[-1], at_ms=time.time_ns() // 1_000_000)
        failure_file(Path(manifest.home), layer).write_bytes(msgspec.json.encode(failure))
    return f"{layer.title} cannot be installed: {lines[-1]}"


def _drop_older(manifest: RuntimeManifest, cache_dir: Path) -> None:
    """Removes layers of other versions of Brickyard, unless a node may use one."""
    home = Path(manifest.home)
    ours = {layer.directory(home) for layer in declared().get(manifest.environment, {}).values()}
    ours |= {_draft(path) for path in ours}  # of an installation that another process does
    with contextlib.suppress(RuntimeInUse, OSError), unused(cache_dir, manifest.environment):
        for path in (home / KIND).iterdir():
            if path.is_dir() and path not in ours:
                shutil.rmtree(path, ignore_errors=True)
