"""Kubernetes' part of `bench/engines.py`: the tests' cluster, in a process of its own. Its kubelets start processes, not
containers: the difference to an empty unit counts, not the time of either."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from brickyard.config.settings import Settings
from brickyard.domain.nodetypes import NodeType
from brickyard.providers.base import Setup
from brickyard.providers.kubernetes import open_provider
from brickyard.providers.kubernetes.api import Api, connected
from brickyard.providers.kubernetes.provider import KubernetesProvider
from tests.kubernetes.cluster import NAMESPACE, Cluster
from tests.kubernetes.kubelet import machine

WORKSPACE = "1234567890123456"
TINY = NodeType(node_type_id="tiny", num_cores=0.1, memory_mb=16, category="bench")
WAITING = NodeType(node_type_id="waiting", num_cores=1_000, memory_mb=16, category="bench")
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


class KubernetesEngine:
    """See `bench.engines.Engine`."""

    name = "kubernetes"
    tiny, waiting = TINY, WAITING
    node_type = "k8s.medium"

    def __init__(self, kubeconfig: Path, directory: Path) -> None:
        self._kubeconfig = kubeconfig
        self._directory = directory

    def empty_units(self, count: int) -> list[float]:
        """The engine's own start of an empty unit: a pod that writes a file, until that is there."""
        api = Api(connected(kubeconfig=str(self._kubeconfig), context="")[0])
        took = []
        for number in range(count):
            there = self._directory / f"empty-{number}"
            command = ["python3", "-S", "-c", f"open({str(there)!r}, 'w')"]
            pod = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": there.name},
                "spec": {"restartPolicy": "Never", "containers": [{"name": "empty", "image": "none", "command": command}]},
            }
            began = time.monotonic()
            api.apply(f"{PODS}/{there.name}", pod, object)
            while not there.exists():
                time.sleep(0.005)
            took.append(time.monotonic() - began)
        api.close()
        return took

    def provider(self, server_url: str, *, grows: bool = False) -> KubernetesProvider:
        data = self._directory / "data"
        data.mkdir(exist_ok=True)
        (data / "workspace.id").write_text(WORKSPACE)
        section: dict[str, Any] = {**self._section(), "autoscaler": grows}
        settings = Settings(data_dir=data, cache_dir=self._directory / "cache", sections={"kubernetes": section})
        return open_provider(Setup(settings=settings, server_url=server_url, workspace_id=WORKSPACE, runtimes=()))

    def cpu_s(self) -> float:
        """Nothing runs beside the server."""
        return 0.0

    def settings(self, cache_dir: Path) -> Mapping[str, str]:
        """Of a server on this engine."""
        return {f"kubernetes_{key}": value for key, value in {**self._section(), "machine_cache_dir": str(cache_dir)}.items()}

    def _section(self) -> dict[str, str]:
        return {
            "kubeconfig": str(self._kubeconfig),
            "image": "example.org/brickyard:1",
            "run_as_user": str(os.geteuid() or 1000),  # the cluster's processes run as we do
            "machine_dir": str(self._directory / "machine"),
        }


@contextlib.contextmanager
def opened() -> Iterator[KubernetesEngine]:
    """Three machines with room for hundreds of tiny pods."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(Path(directory) / "cluster", theirs), daemon=True)
        process.start()
        try:
            yield KubernetesEngine(Path(ours.recv()), Path(directory))
        finally:
            ours.send("end")
            process.join(60)


def _serve(root: Path, told: Connection) -> None:
    cluster = Cluster(root, *(machine(name, cpu="64", memory="256Gi", pods="2000") for name in ("one", "two", "three")))
    told.send(str(cluster.kubeconfig))
    told.recv()
    cluster.close()
