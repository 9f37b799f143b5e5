"""Spark's own way of starting: as its documentation says, with plain options, from a runtime's environment.

`spark-class` runs a master; then workers and a PySpark driver start side by side. No code of Brickyard takes part. Nothing is
left behind: its temporary files have a directory of their own, and Spark has time to end.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from brickyard.domain.runtimes import RuntimeManifest

PATIENCE_S = 180.0
END_S = 15.0
HOST = "127.0.0.1"
_DRIVER = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master(sys.argv[1]).config("spark.executor.memory", sys.argv[2]).getOrCreate()
print("context", spark.sparkContext.applicationId, flush=True)
{query}
sys.stdin.read()
spark.stop()
"""


# Runs what arrives, a line of JSON for each program, and answers with what it printed.
_SERVING = """
import contextlib, io, json, sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master(sys.argv[1])
for key, value in json.loads(sys.argv[2]).items():
    builder = builder.config(key, value)
names = {"spark": builder.getOrCreate()}
print("context", flush=True)
for line in sys.stdin:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(json.loads(line), names)
    print("answer", json.dumps(printed.getvalue()), flush=True)
"""


class _Line:
    """A line of a process's output, and its arrival time (time.monotonic)."""

    def __init__(self, text: str, at: float) -> None:
        self.text = text
        self.at = at


class _Process:
    """A process in its own session whose output is read as it arrives."""

    def __init__(self, argv: list[str], environment: dict[str, str], place: Path) -> None:
        self.name = argv[1] if argv[0].endswith("spark-class") else argv[0]
        self._process = subprocess.Popen(
            argv, env=environment, cwd=place, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", start_new_session=True,
        )  # fmt: skip
        self.pid = self._process.pid
        self._lines: queue.Queue[_Line | None] = queue.Queue()
        self._said: list[str] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for text in self._process.stdout:
            self._lines.put(_Line(text, time.monotonic()))
        self._lines.put(None)

    def await_line(self, part: str) -> _Line:
        """Returns the next line that contains `part`. Raises RuntimeError."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            line = self._lines.get(timeout=max(0.1, deadline - time.monotonic()))
            if line is None:
                raise RuntimeError(f"{self.name} ended before it said {part!r}:\n{''.join(self._said[-30:])}")
            self._said.append(line.text)
            if part in line.text:
                return line

    def write(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def end(self) -> None:
        """Ends it with everything that it started. What is killed leaves files behind, so it may end by itself first."""
        for number, patience_s in ((signal.SIGTERM, END_S), (signal.SIGKILL, 1.0)):
            deadline = time.monotonic() + patience_s
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
                while time.monotonic() < deadline:
                    self._process.poll()  # reaps it: then its group is gone once the others are
                    os.killpg(self._process.pid, 0)
                    time.sleep(0.02)
        self._process.wait()


def start(manifest: RuntimeManifest, query: str, *, cores: int, worker_mb: int, executor_mb: int) -> tuple[float, float, str]:
    """Starts a cluster, runs `query` (Python that prints one line), and ends everything.

    Returns seconds until it was ready (the worker registered and the SparkContext created), seconds until the answer, and the
    answer. The worker starts once the master listens: earlier, its first attempt would fail and cost seconds.
    """
    with _place() as place, contextlib.ExitStack() as ends:
        run = _runner(manifest, place, ends, [])
        spark_class = f"{manifest.spark_home}/bin/spark-class"
        script = place / "driver.py"
        script.write_text(_DRIVER.replace("{query}", query))
        began = time.monotonic()
        master = run(spark_class, "org.apache.spark.deploy.master.Master", "--host", HOST, "--port", "0", "--webui-port", "0")
        url = master.await_line("Starting Spark master at").text.split(" at ")[-1].strip()
        _worker(run, spark_class, url, cores=cores, memory_mb=worker_mb)
        driver = run(manifest.python, str(script), url, f"{executor_mb}m")
        registered = master.await_line("Registering worker").at
        ready = max(registered, driver.await_line("context ").at)
        answer = driver.await_line("answer")
        # The executor is a child of the worker in the worker's session; it also ends with the driver.
        return ready - began, answer.at - began, answer.text.strip()


class Cluster:
    """A running cluster of Spark's own, with a driver that runs programs."""

    def __init__(self, driver: _Process, pids: Sequence[int]) -> None:
        self._driver = driver
        self.pids = pids  # of the processes from which all others of the cluster come

    def run(self, code: str) -> str:
        """Runs Python in the driver, where `spark` is the session, and returns what it printed. Raises RuntimeError."""
        self._driver.write(json.dumps(code))
        printed = json.loads(self._driver.await_line("answer ").text.removeprefix("answer "))
        return str(printed).strip()


@contextlib.contextmanager
def cluster(
    manifest: RuntimeManifest, *, workers: int, cores: int, worker_mb: int, conf: Mapping[str, str], driver_mb: int
) -> Iterator[Cluster]:
    """A master, `workers` workers that have registered, and a driver."""
    with _place() as place, contextlib.ExitStack() as ends:
        pids: list[int] = []
        run = _runner(manifest, place, ends, pids)
        spark_class = f"{manifest.spark_home}/bin/spark-class"
        script = place / "driver.py"
        script.write_text(_SERVING)
        master = run(spark_class, "org.apache.spark.deploy.master.Master", "--host", HOST, "--port", "0", "--webui-port", "0")
        url = master.await_line("Starting Spark master at").text.split(" at ")[-1].strip()
        for _ in range(workers):
            _worker(run, spark_class, url, cores=cores, memory_mb=worker_mb)
        for _ in range(workers):
            master.await_line("Registering worker")
        settings = {**conf, "spark.driver.memory": f"{driver_mb}m"}  # PySpark starts the JVM with it
        driver = run(manifest.python, str(script), url, json.dumps(settings))
        driver.await_line("context")
        yield Cluster(driver, pids)


def _runner(manifest: RuntimeManifest, place: Path, ends: contextlib.ExitStack, pids: list[int]) -> Callable[..., _Process]:
    """Starts processes that end with `ends`, and adds their pids to `pids`."""

    def run(*argv: str) -> _Process:
        process = _Process(list(argv), _environment(manifest, place), place)
        ends.callback(process.end)
        pids.append(process.pid)
        return process

    return run


def _worker(run: Callable[..., _Process], spark_class: str, url: str, *, cores: int, memory_mb: int) -> None:
    size = ("--cores", str(cores), "--memory", f"{memory_mb}m")
    run(spark_class, "org.apache.spark.deploy.worker.Worker", "--host", HOST, "--webui-port", "0", *size, url)


def _environment(manifest: RuntimeManifest, place: Path) -> dict[str, str]:
    temporary = place / "tmp"
    temporary.mkdir(exist_ok=True)
    kept = {key: value for key, value in os.environ.items() if key in ("PATH", "HOME", "LANG", "TZ", "USER")}
    return {
        **kept,
        "JAVA_HOME": manifest.java_home,
        "SPARK_HOME": manifest.spark_home,
        "PYSPARK_PYTHON": manifest.python,
        "SPARK_LOCAL_IP": HOST,
        "SPARK_LOCAL_DIRS": str(temporary),
        "TMPDIR": str(temporary),
        "JDK_JAVA_OPTIONS": f"-Djava.io.tmpdir={temporary}",
    }


@contextlib.contextmanager
def _place() -> Iterator[Path]:
    """A directory for the cluster's files. Executors that are being killed may still write to it."""
    path = Path(tempfile.mkdtemp(prefix="brickyard-bench-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
