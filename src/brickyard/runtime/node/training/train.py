"""Makes what a runtime's JVMs start fast with: `start.py train --manifest FILE --out DIR` writes DIR/node, DIR/worker and
DIR/executor, with the ending .jsa (class-data archives) or, from Java 25 on, .aot (caches; there is no DIR/worker.jsa).

A throw-away cluster (driver with master, worker, one executor) runs some queries while its JVMs record what they load
(`recording.py`). What has lambdas among that is written once more without them (`lambdas.py`), as rewritten.jar in the runtime's
home. A second such cluster records again, with that JAR; then Java makes a file from each record. Each file appears complete or
not at all.

Prints {"message": ...} lines. On failure: exit code 1 and a last {"error": ...} line.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

from ..connect.server import server_url
from ..jvm import launch
from ..jvm.errors import error_text
from ..jvm.launch import JvmOptions
from ..jvm.process import Jvm, JvmError
from ..jvm.scala import Scala
from ..processes import Spawner, adopt_orphans, descendants, kill_descendants
from ..spark import conf as sparkconf
from ..spark.driver import Driver, load_event_log
from ..spark.place import Place
from ..spark.standalone import Master, Worker
from .lambdas import RewriteError, write_plain
from .program import first_line, run_program, say
from .recording import Recording, recording_of

if TYPE_CHECKING:
    from ..documents import AssignmentDocument, ManifestDocument

START = Path(__file__).resolve().parents[1] / "start.py"
HOST = "127.0.0.1"
HEAP_MB = 1024
DUMP_TIMEOUT_S = 600
WORK_TIMEOUT_S = 300
END_S = 900.0  # a JVM that records for a cache writes its record when it ends; in the background it may be stopped meanwhile
EXECUTOR = b"org.apache.spark.executor.CoarseGrainedExecutorBackend"
FIRST_EXECUTOR = 0  # Spark replaces one that ends; each has a record of its own
REWRITTEN = "rewritten.jar"  # not in `--out`, which is renamed later: archives depend on the paths of their JARs


class TrainError(Exception):
    """No archive could be made; the message says why."""


def assignment() -> AssignmentDocument:
    return {
        "cluster_id": "training", "cluster_name": "training", "role": "driver", "cores": 2, "memory_mb": 2048,
        "secret": os.urandom(16).hex(), "connect_token": os.urandom(16).hex(), "spark_conf": {}, "spark_env_vars": {},
    }  # fmt: skip


def train(manifest: ManifestDocument, out: Path, scratch: Path) -> None:
    """Runs the clusters, then makes the files. Raises TrainError and JvmError."""
    bare: ManifestDocument = {**manifest, "node_archive": "", "worker_archive": "", "rewritten": ""}
    say("running Spark once to see which classes it needs")
    seen = Recording(bare, scratch / "seen")
    run_cluster(bare, seen)
    rewritten = rewrite(bare, seen, scratch / "rewritten")
    recording = recording_of(bare, scratch / "recorded")
    commands = run_cluster({**bare, "rewritten": rewritten}, recording)
    say("making the archives")
    with ThreadPoolExecutor(2) as pool:
        for future in [pool.submit(make, recording, name, argv, out) for name, argv in commands.items()]:
            future.result()


def rewrite(manifest: ManifestDocument, seen: Recording, scratch: Path) -> str:
    """Returns the path of the JAR without lambdas; "" if it cannot be written: starts take longer then."""
    jar = Path(manifest["home"], REWRITTEN)
    try:
        jar.unlink(missing_ok=True)  # of an earlier training: after a failure it would be taken for this one's
        count = write_plain(manifest, map(seen.path, ("node", "executor")), jar, scratch)
    except (RewriteError, JvmError, OSError) as error:
        say(f"running Spark again; its lambdas stay as they are: {first_line(error)}")
        return ""
    say(f"running Spark again, with {count} lambdas as plain classes")
    return str(jar)


def run_cluster(manifest: ManifestDocument, recording: Recording) -> dict[str, list[str]]:
    """Runs one cluster, from start to end. Returns the command lines of the JVMs that have recorded, by their names. Raises
    TrainError and JvmError."""
    adopt_orphans()
    spawner = Spawner()
    jvms = {}
    for name in recording.jvms:
        options = JvmOptions(heap_mb=HEAP_MB, worker=name == launch.WORKER, java_options=tuple(recording.flags(name)))
        place = recording.scratch / "jvms" / name
        (place / "logs").mkdir(parents=True)
        jvms[name] = Jvm(spawner=spawner, manifest=manifest, options=options, node_dir=place, host=HOST)
        jvms[name].spawn()
    try:
        for jvm in jvms.values():
            jvm.connect()
        commands = {name: command_of(jvm.pid) for name, jvm in jvms.items()}
        commands["executor"] = live(jvms["node"], jvms.get(launch.WORKER, jvms["node"]), manifest, recording)
    except Py4JError as error:
        raise TrainError(error_text(error)) from error  # only now, because its text is in the JVM
    finally:
        for jvm in jvms.values():
            jvm.stop(END_S)
        kill_descendants(os.getpid())
    recording.path("executor", FIRST_EXECUTOR).replace(recording.path("executor"))
    if EXECUTOR.replace(b".", b"/") not in recording.path("executor").read_bytes():
        raise TrainError("the executor did not record which classes it loads")
    return commands


def live(jvm: Jvm, beside: Jvm, manifest: ManifestDocument, recording: Recording) -> list[str]:
    """Does all the work; the worker runs in the JVM `beside`. Returns the executor's command line."""
    wanted = assignment()
    scala, place = Scala(jvm.gateway), Place(host=HOST, node_dir=str(jvm.node_dir), ui_key="")
    master = Master(scala, conf=sparkconf.master_conf(wanted, place), host=HOST)
    worker = Worker(
        Scala(beside.gateway),
        conf=sparkconf.worker_conf(wanted, place),
        host=HOST,
        cores=2,
        memory_mb=2048,
        work_dir=f"{beside.node_dir}/work/executors",
    )  # fmt: skip
    worker.join(master.url)
    flags = recording.flags("executor", "{{EXECUTOR_ID}}")  # which Spark fills in
    wanted["spark_conf"] = {"spark.executor.extraJavaOptions": " ".join(flags)}
    conf = sparkconf.driver_conf(wanted, manifest, place, master_url=master.url, executor_archive="").values
    load_event_log(scala)
    driver = Driver(scala, conf=conf)
    driver.first_job()
    driver.warm_up()
    driver.activity()
    driver.stages()
    driver.executors()
    master.alive_workers()
    worker.registered()
    worker.executors()
    command = first_executor()
    gateway = {"PYSPARK_GATEWAY_PORT": str(jvm.port), "PYSPARK_GATEWAY_SECRET": jvm.secret, "PYSPARK_PYTHON": sys.executable}
    use("classic", f"{jvm.node_dir}/work", {**os.environ, **gateway})
    if sparkconf.has_connect(wanted, manifest):
        train_connect(driver, wanted.get("connect_token", ""))
    end_executors()
    driver.stop()
    return command


def train_connect(driver: Driver, token: str) -> None:
    """Does some work through Spark Connect. If the server does not start, the archive lacks its classes, and users get the
    error later."""
    try:
        port = driver.connect.open()
    except Py4JError as error:
        say(f"Spark Connect does not start, so its half of the training is left out: {error_text(error).splitlines()[0]}")
        return
    use("connect", server_url(HOST, port, token), os.environ)


def use(kind: str, argument: str, env: Mapping[str, str]) -> None:
    """Runs one half of work.py. If that fails (a client library is missing), the archive is smaller, but still possible."""
    argv = [sys.executable, str(START), "train-work", kind, argument]
    try:
        done = subprocess.run(argv, env=dict(env), capture_output=True, timeout=WORK_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        say(f"the training's {kind} half took too long and is left out")
        return
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        say(f"the training's {kind} half failed: {lines[-1] if lines else f'exit code {done.returncode}'}")


def executors() -> dict[int, list[bytes]]:
    """Returns process id -> command line of the executors below this process."""
    found = {}
    for pid in descendants(os.getpid()):
        with contextlib.suppress(OSError):
            argv = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if EXECUTOR in argv:
                found[pid] = argv
    return found


def first_executor() -> list[str]:
    """Returns the executor's command line."""
    for argv in executors().values():
        return [os.fsdecode(each) for each in argv]
    raise TrainError("the executor ended before the training was done")


def command_of(pid: int) -> list[str]:
    """Returns the command line with which Java runs, after any shim."""
    return [os.fsdecode(each) for each in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")]


def end_executors() -> None:
    """Lets those that run now end gracefully, so that their records are complete: Spark itself kills them after ten seconds."""
    deadline = time.monotonic() + END_S
    ending = executors().keys()
    for pid in ending:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGTERM)
    while ending & executors().keys() and time.monotonic() < deadline:
        time.sleep(0.05)


def make(recording: Recording, name: str, argv: list[str], out: Path) -> None:
    """Makes a file from a record; it appears complete or not at all. `argv`: the JVM's command line. Raises TrainError."""
    whole = out / f"{name}{recording.suffix}"
    draft = recording.path(name).with_suffix(recording.suffix)
    command = recording.command(name, argv, draft)
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=DUMP_TIMEOUT_S, check=False)
    if done.returncode or not draft.is_file():
        lines = (done.stdout + done.stderr).decode(errors="replace").strip().splitlines()
        raise TrainError(f"Java could not make {whole.name}: {lines[-1] if lines else f'exit code {done.returncode}'}")
    draft.replace(whole)
    say(f"{whole.name}: {whole.stat().st_size >> 20} MiB")


def main() -> int:
    os.environ["PATH"] = f"{os.environ.get('PATH', '')}:{os.defpath}"  # Spark's file system runs `chmod`
    about = "Make a runtime's class-data archives or caches."
    return run_program(train, description=about, out="directory for the files", scratch_in_out=True)
