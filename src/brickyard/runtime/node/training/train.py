"""Makes a runtime's class-data archives: `start.py train --manifest FILE --out DIR` writes DIR/node.jsa and DIR/executor.jsa.

A throw-away cluster in one JVM (master, worker and driver, with one executor) runs some queries while both JVMs record which
classes they load; then Java makes an archive from each list. It uses lists instead of an archive at a JVM's exit, because some
Java distributions lack the base archive that the latter needs.

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
from typing import Any

from py4j.protocol import Py4JError

from ..connect.server import server_url
from ..jvm import launch
from ..jvm.errors import error_text
from ..jvm.launch import JvmOptions
from ..jvm.process import Jvm
from ..jvm.scala import Scala
from ..processes import Spawner, adopt_orphans, descendants, kill_descendants
from ..spark import conf as sparkconf
from ..spark.driver import Driver
from ..spark.standalone import Master, Worker
from .program import run_program, say

START = Path(__file__).resolve().parents[1] / "start.py"
HOST = "127.0.0.1"
HEAP_MB = 1024
DUMP_TIMEOUT_S = 600
WORK_TIMEOUT_S = 300
EXECUTOR = b"org.apache.spark.executor.CoarseGrainedExecutorBackend"


class TrainError(Exception):
    """No archive could be made; the message says why."""


def assignment() -> dict[str, Any]:
    return {
        "cluster_id": "training", "cluster_name": "training", "role": "driver", "cores": 2, "memory_mb": 2048,
        "secret": os.urandom(16).hex(), "connect_token": os.urandom(16).hex(), "spark_conf": {}, "spark_env_vars": {},
    }  # fmt: skip


def train(manifest: Mapping[str, Any], out: Path, scratch: Path) -> None:
    """Runs the cluster, then makes both archives. Raises TrainError and JvmError."""
    lists = {"node": scratch / "node.lst", "executor": scratch / "executor.lst"}
    say("running Spark once to see which classes it needs")
    executor_class_path = run_cluster(manifest, scratch, lists["node"], lists["executor"])
    if EXECUTOR.replace(b".", b"/") not in lists["executor"].read_bytes():
        raise TrainError("the executor did not record which classes it loads")
    say("making the archives")
    node_class_path = launch.class_path(manifest, JvmOptions(heap_mb=HEAP_MB))
    wanted = {"node": node_class_path, "executor": executor_class_path}
    with ThreadPoolExecutor(2) as pool:
        for future in [pool.submit(dump, manifest, lists[name], out / f"{name}.jsa", wanted[name]) for name in wanted]:
            future.result()


def run_cluster(manifest: Mapping[str, Any], scratch: Path, node_list: Path, executor_list: Path) -> str:
    """Runs one cluster in one JVM, from start to end. Returns the executors' class path."""
    adopt_orphans()
    spawner = Spawner()
    options = JvmOptions(heap_mb=HEAP_MB, java_options=(f"-XX:DumpLoadedClassList={node_list}",))
    jvm = Jvm(spawner=spawner, manifest={**manifest, "node_archive": ""}, options=options, node_dir=scratch, host=HOST)
    jvm.spawn()
    try:
        jvm.connect()
        class_path = live(jvm, manifest, executor_list)
    except Py4JError as error:
        raise TrainError(error_text(error)) from error  # only now, because its text is in the JVM
    finally:
        jvm.stop(20.0)
        kill_descendants(os.getpid())
    return class_path


def live(jvm: Jvm, manifest: Mapping[str, Any], executor_list: Path) -> str:
    wanted = assignment()
    scala, place = Scala(jvm.gateway), sparkconf.Place(host=HOST, node_dir=str(jvm.node_dir), ui_key="")
    master = Master(scala, conf=sparkconf.master_conf(wanted, place), host=HOST)
    worker = Worker(
        scala,
        conf=sparkconf.worker_conf(wanted, place),
        host=HOST,
        cores=2,
        memory_mb=2048,
        work_dir=f"{jvm.node_dir}/work/executors",
    )  # fmt: skip
    worker.join(master.url)
    conf = sparkconf.driver_conf(wanted, manifest, place, master_url=master.url, executor_archive="").values
    # Each process writes its own list: Spark replaces an executor that ends, and the new one must not overwrite the list.
    conf["spark.executor.extraJavaOptions"] += f" -XX:DumpLoadedClassList={executor_list}.%p"
    driver = Driver(scala, conf=conf)
    driver.first_job()
    driver.warm_up()
    driver.activity()
    driver.stages()
    driver.executors()
    master.alive_workers()
    worker.registered()
    executor, class_path = first_executor()
    gateway = {"PYSPARK_GATEWAY_PORT": str(jvm.port), "PYSPARK_GATEWAY_SECRET": jvm.secret, "PYSPARK_PYTHON": sys.executable}
    use("classic", f"{jvm.node_dir}/work", {**os.environ, **gateway})
    if sparkconf.has_connect(wanted, manifest):
        train_connect(driver, wanted["connect_token"])
    end_executors()
    driver.stop()
    Path(f"{executor_list}.pid{executor}").replace(executor_list)  # Java replaces %p with this
    return class_path


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


def first_executor() -> tuple[int, str]:
    """Returns process id and class path of the executor."""
    for pid, argv in executors().items():
        return pid, os.fsdecode(argv[argv.index(b"-cp") + 1])
    raise TrainError("the executor ended before the training was done")


def end_executors() -> None:
    """Lets them end gracefully, so that their lists are complete: Spark itself kills them after ten seconds."""
    deadline = time.monotonic() + 60
    for pid in executors():
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGTERM)
    while executors() and time.monotonic() < deadline:
        time.sleep(0.05)


def dump(manifest: Mapping[str, Any], class_list: Path, archive: Path, class_path: str) -> None:
    """Makes `archive` from a list; it appears complete or not at all. Raises TrainError."""
    draft = archive.with_suffix(".draft")
    argv = [
        f"{manifest['java_home']}/bin/java", "-Xshare:dump", f"-XX:SharedClassListFile={class_list}",
        f"-XX:SharedArchiveFile={draft}", "-Xmx1g", "-Xlog:disable", *launch.module_flags(manifest["java_version"]),
        "-cp", class_path,
    ]  # fmt: skip
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=DUMP_TIMEOUT_S, check=False)
    if done.returncode or not draft.is_file():
        lines = (done.stdout + done.stderr).decode(errors="replace").strip().splitlines()
        raise TrainError(f"Java could not make {archive.name}: {lines[-1] if lines else f'exit code {done.returncode}'}")
    draft.replace(archive)
    say(f"{archive.name}: {archive.stat().st_size >> 20} MiB")


def main() -> int:
    os.environ["PATH"] = f"{os.environ.get('PATH', '')}:{os.defpath}"  # Spark's file system runs `chmod`
    out = "directory for node.jsa and executor.jsa"
    return run_program(train, description="Make a runtime's class-data archives.", out=out, scratch_in_out=True)
