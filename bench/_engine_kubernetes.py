"""Kubernetes' part of `bench/engines.py`: the tests' cluster, in a process of its own. Its kubelets start processes, not
containers: the difference to an empty unit counts, not the time of either."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import tempfile
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

from bench._engine import Engine, sized
from bench._harness import PREFIX
from brickyard.providers.base import Provider, Setup
from brickyard.providers.kubernetes import open_provider
from brickyard.providers.kubernetes.api import Api, connected
from tests.kubernetes.cluster import NAMESPACE, Cluster
from tests.kubernetes.kubelet import machine

PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


class KubernetesEngine(Engine):
    name = "kubernetes"
    tiny, waiting = sized("tiny", 0.1), sized("waiting", 1_000)
    node_type = "k8s.medium"

    def __init__(self, kubeconfig: Path, directory: Path) -> None:
        super().__init__(directory)
        self._kubeconfig = kubeconfig

    def empty_units(self, count: int) -> list[float]:
        """Pods that write a file."""
        api = Api(connected(kubeconfig=str(self._kubeconfig), context="")[0])

        def apply(there: Path) -> None:
            command = ["python3", "-S", "-c", f"open({str(there)!r}, 'w')"]
            pod = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": there.name},
                "spec": {"restartPolicy": "Never", "containers": [{"name": "empty", "image": "none", "command": command}]},
            }
            api.apply(f"{PODS}/{there.name}", pod, object)

        with contextlib.closing(api):
            return self.files(count, apply)

    def opened(self, setup: Setup) -> Provider:
        return open_provider(setup)

    def section(self) -> dict[str, str]:
        return {
            "kubeconfig": str(self._kubeconfig),
            "image": "example.org/brickyard:1",
            "run_as_user": str(os.geteuid() or 1000),  # the cluster's processes run as we do
            "machine_dir": str(self.directory / "machine"),
        }


@contextlib.contextmanager
def opened() -> Iterator[KubernetesEngine]:
    """Three machines with room for hundreds of tiny pods."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix=PREFIX) as directory:
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
