"""A real Ray cluster for tests: three nodes on loopback addresses, each with its own directory, ended by their process ids.

Ray has an environment of its own, with exactly the packages of requirements/ray.txt, made on first use in the cache.
`python -m tests.support.rays` makes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil

from brickyard.machine.packageindex import uv_environment
from tests.support.patience import PATIENCE_S, until
from tests.support.ports import free_port
from tests.support.runtimes import cache_dir
from tests.support.snippets import ROOT

LOCK_FILE = ROOT / "requirements" / "ray.txt"
HEAD, SECOND, THIRD, FOURTH = "127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5"  # Ray gives a head on 127.0.0.1 another one
GIB = 1 << 30
UNUSED_S = 14 * 86_400.0  # an older environment that no test has used for so long is removed
# docs/ray.md: a dead raylet is known after about two seconds
HEALTH = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "2",
}


_DRAIN = """
import sys, time
from ray._raylet import GcsClient
from ray.core.generated.autoscaler_pb2 import DrainNodeReason
client = GcsClient(address=sys.argv[1])
known = client.get_all_node_info()
node = next(id.hex() for id, info in known.items() if info.node_manager_address == sys.argv[2] and info.state == 0)
reason = DrainNodeReason.Value("DRAIN_NODE_REASON_PREEMPTION")
accepted, why = client.drain_node(node, reason, "a test", int(time.time() * 1000) + 600_000)
assert accepted, why
"""


# Runs a command, and becomes the parent of all orphans among what it starts, as a user's systemd does.
_ADOPT = """
import ctypes, os, sys
assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0  # PR_SET_CHILD_SUBREAPER
child = os.fork()
if child == 0:
    os.execv(sys.argv[1], sys.argv[1:])
while os.wait()[0] != child:
    pass
"""


@functools.cache
def ray_python() -> Path:
    """The interpreter that has Ray. Two processes that make it at once wait for each other."""
    digest = hashlib.sha256(LOCK_FILE.read_bytes()).hexdigest()[:12]
    home = cache_dir() / "tests" / f"ray-{digest}-{sys.version_info.major}.{sys.version_info.minor}"
    python, done = home / "bin" / "python", home / "complete"
    home.parent.mkdir(parents=True, exist_ok=True)
    with (home.parent / "ray.lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        if not done.exists():
            for old in home.parent.glob("ray-*/complete"):
                if time.time() - old.stat().st_mtime > UNUSED_S:
                    shutil.rmtree(old.parent, ignore_errors=True)
            shutil.rmtree(home, ignore_errors=True)  # half-made
            env = {**os.environ, **uv_environment(os.environ), "UV_NO_PROGRESS": "1"}
            env.pop("VIRTUAL_ENV", None)
            uv = str(Path(sys.executable).with_name("uv"))
            for command in (
                [uv, "venv", "--quiet", "--no-project", "--python", sys.executable, str(home)],
                [uv, "pip", "sync", "--quiet", "--require-hashes", "--compile-bytecode", "--python", str(python), str(LOCK_FILE)],
            ):
                subprocess.run(command, env=env, check=True)
        done.touch()
    return python


class RayCluster:
    """`start` it; `close` ends every process of it and removes its files. Nodes have two cores and 5 GiB each, by Ray's books."""

    def __init__(self, *, old_state: bool = False, health: Mapping[str, str] = HEALTH, cores: float = 2) -> None:
        """`old_state`: a head that is started again knows what it knew."""
        self.place = Path(tempfile.mkdtemp(prefix="rays-"))  # sockets in there have short paths
        self.port = free_port()
        self.address = f"{HEAD}:{self.port}"
        self._old_state = old_state
        self._cores = cores
        self._health = dict(health)
        self._nodes: dict[str, subprocess.Popen[bytes]] = {}
        self._starts = 0

    def start(self, hosts: tuple[str, ...] = (HEAD, SECOND, THIRD), **more: Mapping[str, Any]) -> None:
        """Starts these nodes, the head first. `more`: options of `ray start` by the host's last number, as n3={...}."""
        for host in hosts:
            self.start_node(host, **more.get(f"n{host[-1]}", {}))

    def start_node(self, host: str, *, adopted: bool = False, **options: str) -> None:
        """Starts one node, and waits until it takes part. `adopted`: its orphans do not become process 1's children."""
        self._starts += 1
        place = self.place / f"{self._starts}"
        place.mkdir()
        given = {
            "node-ip-address": host, "num-cpus": f"{self._cores:g}", "memory": str(5 * GIB), "object-store-memory": str(80 << 20),
            "min-worker-port": "0", "max-worker-port": "0", **({"port": str(self.port)} if host == HEAD else {}),
        } | {key.replace("_", "-"): value for key, value in options.items()}  # fmt: skip
        command = [str(ray_python().with_name("ray")), "start", "--block", "--disable-usage-stats", "--include-log-monitor=false"]
        command += (
            ["--head", "--include-dashboard=false", f"--temp-dir={place}"] if host == HEAD else [f"--address={self.address}"]
        )
        command += [f"--{key}={value}" for key, value in given.items()]
        if adopted:
            command = [sys.executable, "-c", _ADOPT, *command]
        env = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}
        env |= {**self._health, "RAY_USAGE_STATS_ENABLED": "0", "RAY_DISABLE_IMPORT_WARNING": "1", "TMPDIR": str(place)}
        env["RAY_prestart_worker_first_driver"] = "0"  # workers that nobody has work for
        if self._old_state:
            storage = self.place / "gcs"
            storage.mkdir(exist_ok=True)
            env |= {"RAY_gcs_storage": "rocksdb", "RAY_gcs_storage_path": str(storage)}
        log = self.place / f"{self._starts}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=env, start_new_session=True)
        self._nodes[host] = process

        def runs() -> bool:
            assert process.poll() is None, log.read_text()
            return "Ray runtime started" in log.read_text()

        until(runs, f"Ray on {host}: {log}")

    def processes(self, host: str, name: str) -> list[psutil.Process]:
        """Those of a node that have this in their command line, such as `raylet/raylet` or `gcs_server`."""
        with contextlib.suppress(psutil.Error):
            found = psutil.Process(self._nodes[host].pid).children(recursive=True)
            return [each for each in found if name in " ".join(_command(each))]
        return []

    def raylet(self, host: str) -> psutil.Process:
        return next(each for each in self.processes(host, "raylet/raylet"))

    def drain(self, host: str) -> None:
        """Announces that a node is taken away in ten minutes, as `ray drain-node` and Ray's autoscaler do."""
        command = [str(ray_python()), "-c", _DRAIN, self.address, host]
        subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_S)

    def kill_head(self) -> None:
        """SIGKILL for every process of Ray on the head, as when its machine fails."""
        self.kill(HEAD)

    def kill(self, host: str) -> None:
        """SIGKILL for every process of that node, with whatever they have started."""
        process = self._nodes.pop(host)
        for each in _family(process.pid):
            with contextlib.suppress(psutil.Error):
                each.kill()
        process.wait(PATIENCE_S)

    def close(self) -> None:
        families = [each for process in self._nodes.values() for each in _family(process.pid)]
        for each in families:
            with contextlib.suppress(psutil.Error):
                each.send_signal(signal.SIGCONT)
                each.kill()
        for process in self._nodes.values():
            process.wait(PATIENCE_S)
        until(lambda: not self.left(), f"left of Ray: {self.left()}")
        shutil.rmtree(self.place, ignore_errors=True)

    def left(self) -> list[str]:
        """Processes that know this cluster's directory or address, whoever has started them."""
        found = []
        for each in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if each.pid != os.getpid() and str(self.place) in " ".join(each.cmdline()):
                    found.append(f"{each.pid} {each.name()}")
        return found


@contextlib.contextmanager
def ray_cluster(*, old_state: bool = False) -> Iterator[RayCluster]:
    """A cluster of three nodes."""
    made = RayCluster(old_state=old_state)
    try:
        made.start()
        yield made
    finally:
        made.close()


def _family(pid: int) -> list[psutil.Process]:
    with contextlib.suppress(psutil.Error):
        top = psutil.Process(pid)
        return [top, *top.children(recursive=True)]
    return []


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


if __name__ == "__main__":
    print(ray_python())
