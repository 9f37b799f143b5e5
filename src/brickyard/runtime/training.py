"""Makes what lets a runtime's JVMs start faster: class-data archives, complete or not at all.

An installed runtime works without them. A server makes them in the background when nothing else happens on its machine; the
`runtime install` command makes them at once. Nodes use them from their next start on. Whatever kills a training, nothing of it
counts, and the next one begins anew.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from brickyard.domain.runtimes import RuntimeManifest
from brickyard.runtime import NODE_CODE
from brickyard.runtime import progress as steps
from brickyard.runtime.archives import archives_in
from brickyard.runtime.background import Background, Interrupted
from brickyard.runtime.classes import classes_of, compile_classes
from brickyard.runtime.installed import installed, runtime_home, write_manifest
from brickyard.runtime.lock import end_work, locked, sole
from brickyard.runtime.node.jvm.login import is_nameless
from brickyard.runtime.progress import Board, Meter, Progress
from brickyard.runtime.watch import CommandFailed, run_watched
from brickyard.sandbox.launcher import enter

ARCHIVES = "archives"
FAILURE = "training.json"  # in the runtime's home: why the last training failed
LIMIT_S = 900.0
PATIENT_LIMIT_S = 6 * 3600.0  # in the background it may be stopped for long
LOOK_S, PATIENT_LOOK_S = 0.5, 0.1
REWRITTEN = "rewritten.jar"  # in the runtime's home, where train.py writes it
_SAID = {each.what: each for each in (steps.AGAIN, steps.ARCHIVES)}  # how what train.py prints begins when a step does


class TrainingFailed(Exception):
    """The archives could not be made; the message says why."""


class NothingToTrain(Exception):
    """The runtime is not installed, or not any more."""


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    message: str
    at_ms: int


_decode_failure = msgspec.json.Decoder(Failure).decode


def is_trained(manifest: RuntimeManifest) -> bool:
    """Whether the runtime's JVMs start as fast as they can."""
    named = [manifest.node_archive, *filter(None, [manifest.rewritten])]
    suits = manifest.trained_with in ("", classes_of(manifest.home))
    return bool(manifest.node_archive) and suits and all(Path(each).is_file() for each in named)


def last_failure(environment: str, cache_dir: Path) -> Failure | None:
    """Returns why the runtime's last training failed, if it did."""
    try:
        return _decode_failure((runtime_home(environment, cache_dir) / FAILURE).read_bytes())
    except (OSError, msgspec.MsgspecError):
        return None


def train(
    environment: str, subject: str, *, cache_dir: Path, progress: Progress, background: Background | None = None
) -> RuntimeManifest:
    """Trains an installed runtime unless it is trained, and returns its manifest. Waits for another trainer, unless that one only
    waits itself. `subject`: for people, such as "Spark 4.0.5"; `background`: decides when it may run. Raises TrainingFailed,
    NothingToTrain."""
    board = Board(environment, cache_dir, training=True)
    while True:
        with sole(environment, cache_dir) as alone:
            manifest = installed(environment, cache_dir)
            if manifest is None:
                raise NothingToTrain
            if is_trained(manifest):
                return manifest
            if alone:
                board.clear()  # of a killed one
                try:
                    training = _Training(
                        manifest, subject=subject, cache_dir=cache_dir, board=board, progress=progress, background=background
                    )
                    return training.run()
                except Interrupted:
                    continue
                finally:
                    board.clear()
        if report := board.read():
            progress(report)
        elif background is None:
            end_work(environment, cache_dir)  # it waits until the machine has nothing else to do
        time.sleep(steps.PUBLISH_EVERY_S)


class _Training:
    """One training, by the only trainer."""

    def __init__(
        self,
        manifest: RuntimeManifest,
        *,
        subject: str,
        cache_dir: Path,
        board: Board,
        progress: Progress,
        background: Background | None,
    ) -> None:
        self._manifest = manifest
        self._home = Path(manifest.home)
        self._cache_dir = cache_dir
        self._draft = self._home / f"{ARCHIVES}.draft"
        self._board = board
        self._progress = progress
        self._background = background
        self._meter = Meter(subject, now=time.monotonic(), steps=steps.TRAINING)
        self._told = 0.0
        self._with = ""  # JAR of our classes, if the JVMs need it: archives fit only one class path

    def run(self) -> RuntimeManifest:
        """Raises TrainingFailed, NothingToTrain, Interrupted."""
        if self._background is not None:
            self._background.wait()
        self._tell(time.monotonic())
        try:
            shutil.rmtree(self._draft, ignore_errors=True)  # of a killed training
            self._draft.mkdir()
            if is_nameless():
                self._with = compile_classes(self._manifest).classes
            manifest = self._home / "training.manifest.json"
            manifest.write_bytes(msgspec.json.encode({**msgspec.to_builtins(self._manifest), "login_classes": self._with}))
            packages = str(Path(self._manifest.spark_home).parent)
            with contextlib.suppress(CommandFailed):  # some files are for other versions of Python
                self._run("-I", "-m", "compileall", "-qq", packages)
            self._run(str(NODE_CODE / "start.py"), "train", "--manifest", str(manifest), "--out", str(self._draft))
            return self._finish()
        except CommandFailed as error:
            raise self._failed(str(error).splitlines()[-1]) from error
        except OSError as error:
            if installed(self._manifest.environment, self._cache_dir) is None:
                raise NothingToTrain from error  # it was removed meanwhile
            raise self._failed(str(error.strerror or error)) from error
        finally:
            shutil.rmtree(self._draft, ignore_errors=True)

    def _run(self, *arguments: str) -> None:
        """Runs the runtime's Python. All that it starts ends with it, and with us. Raises CommandFailed, Interrupted."""
        command = [self._manifest.python, *arguments]
        if sys.platform == "linux":
            command = enter(sys.executable, "plain", command)
        patient = self._background is not None
        run_watched(
            command,
            watch=self._watch,
            limit_s=PATIENT_LIMIT_S if patient else LIMIT_S,
            look_every_s=PATIENT_LOOK_S if patient else LOOK_S,
        )

    def _watch(self, pid: int, lines: Sequence[str]) -> None:
        now = time.monotonic()
        for line in lines:
            for said, step in _SAID.items():
                if line.startswith(said):
                    self._meter.begin(step, now=now)
        if now - self._told >= steps.PUBLISH_EVERY_S:
            self._tell(now)
        if self._background is not None:
            self._background.look(pid)

    def _tell(self, now: float) -> None:
        self._told = now
        report = self._meter.report(now=now)
        self._board.write(report)
        self._progress(report)

    def _finish(self) -> RuntimeManifest:
        """Puts the archives in their place, then names them in runtime.json: nodes see both or neither."""
        for each in archives_in(self._draft, self._manifest.java_version).values():
            _flush(each)
        with locked(self._manifest.environment, self._cache_dir, lambda _: None):
            now = installed(self._manifest.environment, self._cache_dir)
            if now is None or now.installed_ms != self._manifest.installed_ms:
                raise NothingToTrain  # it was removed, or installed anew
            place = self._home / ARCHIVES
            shutil.rmtree(place, ignore_errors=True)
            self._draft.rename(place)
            made = {f"{name}_archive": str(path) for name, path in archives_in(place, self._manifest.java_version).items()}
            rewritten = self._home / REWRITTEN
            manifest = msgspec.structs.replace(
                now, **made, rewritten=str(rewritten) if rewritten.is_file() else "", trained_with=self._with
            )
            write_manifest(manifest)
        for left in (FAILURE, "training.manifest.json"):
            (self._home / left).unlink(missing_ok=True)
        return manifest

    def _failed(self, why: str) -> TrainingFailed:
        failure = Failure(message=why, at_ms=time.time_ns() // 1_000_000)
        (self._home / FAILURE).write_bytes(msgspec.json.encode(failure))
        return TrainingFailed(why)


def _flush(path: Path) -> None:
    """Has the file's content on the disk before anything names it."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
