"""The second layer of a runtime's packages: what notebooks usually import, complete or not at all.

A runtime works without it. It is installed after the runtime, while clusters run, into the runtime's home, where nodes see it as
soon as its directory has its name. Whatever kills an installation, nothing of it counts, and the next one begins anew. The
directory is named after the lock file's content: another version of Brickyard with other packages has another beside it.
"""

from __future__ import annotations

import base64
import contextlib
import csv
import functools
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from brickyard.domain.runtimes import RuntimeManifest
from brickyard.machine.packageindex import uv_environment
from brickyard.runtime.catalogue import DATA
from brickyard.runtime.installed import installed, runtime_home
from brickyard.runtime.inuse import RuntimeInUse, unused
from brickyard.runtime.lock import sole
from brickyard.runtime.python import uv_binary
from brickyard.runtime.watch import CommandFailed, run_watched

KIND = "packages"  # of its lock; its directory in the runtime's home; the prefix of its lock files
STATE = "state.json"
LIMIT_S = 3_600.0
NEEDED_MB = 800
STATE_EVERY_S = 3.0
AGAIN_MS = 600_000  # after an installation that failed, as without a network
_HASHES = {"sha256": hashlib.sha256, "sha512": hashlib.sha512}


class PackagesFailed(Exception):
    """The layer could not be installed; the message says why."""


class NoRuntime(Exception):
    """The runtime is not installed, or not any more."""


class State(msgspec.Struct, frozen=True, kw_only=True):
    """How far an installation is: `state` is "waiting", "installing" or "failed". runtime/node/latepackages.py reads it."""

    state: str
    message: str
    at_ms: int


_decode_state = msgspec.json.Decoder(State).decode


def lock_file(environment: str) -> Path:
    """Returns the layer's lock file. Without one, an environment has no layer."""
    return DATA / f"{KIND}-{environment}.txt"


@functools.cache
def layer_dir(home: Path, environment: str) -> Path | None:
    """Returns the layer's directory in a runtime's home, whether it is there or not; None if there is to be none."""
    try:
        digest = hashlib.sha256(lock_file(environment).read_bytes()).hexdigest()[:16]
    except OSError:
        return None
    return home / KIND / digest


def site_of(manifest: RuntimeManifest) -> Path | None:
    """Returns where a node finds the layer's modules, whether they are there or not; None if there are to be none."""
    layer = layer_dir(Path(manifest.home), manifest.environment)
    return None if layer is None else layer / "site"


def state_file(home: Path) -> Path:
    """Returns the file that says how far an installation is."""
    return home / KIND / STATE


def is_missing(environment: str, cache_dir: Path) -> bool:
    """Whether the runtime is installed without its layer."""
    layer = layer_dir(runtime_home(environment, cache_dir), environment)
    return layer is not None and not layer.is_dir() and installed(environment, cache_dir) is not None


def read_state(home: Path) -> State | None:
    """Returns the last installation's state."""
    try:
        return _decode_state(state_file(home).read_bytes())
    except (OSError, msgspec.MsgspecError):
        return None


def failed_lately(environment: str, cache_dir: Path, *, now_ms: int) -> bool:
    """Whether the last installation failed so short a time ago that the next one has to wait."""
    state = read_state(runtime_home(environment, cache_dir))
    return state is not None and state.state == "failed" and 0 <= now_ms - state.at_ms < AGAIN_MS


def install_packages(environment: str, *, cache_dir: Path, wait: Callable[[Callable[[], None]], None] | None = None) -> bool:
    """Installs the layer unless it is there. Returns whether it is: another process may be installing it. `wait` returns when
    the installation may begin, and calls what it is given all the time. Raises PackagesFailed, NoRuntime."""
    with sole(environment, cache_dir, KIND) as alone:
        manifest = installed(environment, cache_dir)
        if manifest is None:
            raise NoRuntime
        layer = layer_dir(Path(manifest.home), environment)
        if layer is None or layer.is_dir():
            return True
        if not alone:
            return False
        installation = _Installation(manifest, layer)
        installation.prepare()
        if wait is not None:
            wait(lambda: installation.tell("waiting", "the machine is busy"))
        installation.run()
        _drop_older(layer, environment, cache_dir)
        return True


def _drop_older(layer: Path, environment: str, cache_dir: Path) -> None:
    """Removes layers of other versions of Brickyard, unless a node may use one."""
    with contextlib.suppress(RuntimeInUse, OSError), unused(cache_dir, environment):
        for path in layer.parent.iterdir():
            if path.is_dir() and path != layer:
                shutil.rmtree(path, ignore_errors=True)


class _Installation:
    """One installation, by the only installer."""

    def __init__(self, manifest: RuntimeManifest, layer: Path) -> None:
        self._manifest = manifest
        self._home = Path(manifest.home)
        self._layer = layer
        self._draft = layer.with_name(f"{layer.name}.draft")
        self._told = 0.0
        self._begun = time.monotonic()

    def prepare(self) -> None:
        self._guarded(self._clear)

    def run(self) -> None:
        """Raises PackagesFailed, NoRuntime."""
        self._begun = time.monotonic()
        self._guarded(self._install)

    def tell(self, state: str, message: str, *, at_once: bool = False) -> None:
        """Says how far it is. Never fails: nothing depends on it."""
        now = time.monotonic()
        if not at_once and now - self._told < STATE_EVERY_S:
            return
        self._told = now
        path = state_file(self._home)
        draft = path.with_suffix(".tmp")
        with contextlib.suppress(OSError):
            draft.write_bytes(msgspec.json.encode(State(state=state, message=message, at_ms=time.time_ns() // 1_000_000)))
            draft.replace(path)

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except (CommandFailed, OSError, PackagesFailed) as error:
            why = str(error).strip().splitlines()[-1] if str(error).strip() else type(error).__name__
            shutil.rmtree(self._draft, ignore_errors=True)
            if installed(self._manifest.environment, self._home.parent.parent) is None:
                raise NoRuntime from error
            self.tell("failed", why, at_once=True)
            raise PackagesFailed(why) from error

    def _clear(self) -> None:
        self._layer.parent.mkdir(exist_ok=True)
        shutil.rmtree(self._draft, ignore_errors=True)  # of a killed installation
        self._draft.mkdir()

    def _install(self) -> None:
        free = shutil.disk_usage(self._home).free >> 20
        if free < NEEDED_MB:
            raise PackagesFailed(f"{NEEDED_MB} MB are needed, and {free} MB are free in {self._home}")
        self._tell_progress("downloading", at_once=True)
        site = self._draft / "site"
        environ = {key: value for key, value in os.environ.items() if key not in ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME")}
        environ |= uv_environment(os.environ)
        self._run(
            uv_binary(), "pip", "install", "--python", self._manifest.python, "--target", str(site), "--require-hashes",
            "--no-deps", "--no-build", "-r", str(lock_file(self._manifest.environment)), environment=environ, what="downloading",
        )  # fmt: skip
        self._tell_progress("checking", at_once=True)
        if problems := list(differences(site)):
            raise PackagesFailed(f"{len(problems)} files are not what their packages say, such as {problems[0]}")
        # Nodes cannot write here: each would compile it anew. A file for another version of Python is none of their matter.
        with contextlib.suppress(CommandFailed):
            compileall = (self._manifest.python, "-I", "-m", "compileall", "-qq", "-x", "/tests/", str(site))  # tests: half of it
            self._run(*compileall, environment=None, what="compiling")
        os.sync()  # the content is on the disk before anything names it
        self._draft.rename(self._layer)
        state_file(self._home).unlink(missing_ok=True)

    def _run(self, *command: str, environment: dict[str, str] | None, what: str) -> None:
        run_watched(
            command, watch=lambda _pid, _lines: self._tell_progress(what), environment=environment, limit_s=LIMIT_S
        )  # fmt: skip

    def _tell_progress(self, what: str, *, at_once: bool = False) -> None:
        self.tell("installing", f"{what}, for {time.monotonic() - self._begun:.0f} s", at_once=at_once)


def differences(site: Path) -> Iterator[str]:
    """Yields the files of the packages in a directory that are missing, or have another content than their RECORD says."""
    records = sorted(site.glob("*.dist-info/RECORD"))
    if not records:
        yield "RECORD"
    for record in records:
        with record.open(newline="") as lines:
            for name, checksum, *_ in csv.reader(lines):
                algorithm, _, expected = checksum.partition("=")
                make = _HASHES.get(algorithm)
                if make is None:
                    continue
                try:
                    content = (site / name).read_bytes()
                except OSError:
                    yield name
                    continue
                if base64.urlsafe_b64encode(make(content).digest()).rstrip(b"=").decode() != expected:
                    yield name
