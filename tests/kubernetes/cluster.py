"""A whole fake cluster on a thread of its own, and what tests do to it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import yaml

from tests.kubernetes.apiserver import TOKEN, ApiServer
from tests.kubernetes.kubelet import Kubelets, machine
from tests.kubernetes.schemas import Document, mistakes
from tests.kubernetes.store import Key
from tests.support.patience import PATIENCE_S

T = TypeVar("T")
NAMESPACE = "lab"


class Cluster:
    """`machines`: nodes of Kubernetes (`kubelet.machine`)."""

    def __init__(self, root: Path, *machines: Document) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="cluster")
        self._thread.start()
        self.api: ApiServer = self.on_loop(ApiServer)
        self.kubelets: Kubelets = self.on_loop(lambda: Kubelets(self.api.objects, root / "pods"))
        for each in machines or (machine("one"), machine("two"), machine("three")):
            assert not mistakes(each)
            self.add("nodes", each)
        self.run(self.api.start())
        self.port = int(self.api.url.rpartition(":")[2])

    @property
    def kubeconfig(self) -> Path:
        path = self.root / "kubeconfig"
        context = {"cluster": "fake", "user": "brickyard", "namespace": NAMESPACE}
        path.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "fake",
                    "clusters": [{"name": "fake", "cluster": {"server": f"http://127.0.0.1:{self.port}"}}],
                    "users": [{"name": "brickyard", "user": {"token": TOKEN}}],
                    "contexts": [{"name": "fake", "context": context}],
                }
            )
        )
        return path

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)

    def on_loop(self, call: Callable[[], T]) -> T:
        async def now() -> T:
            return call()

        return self.run(now())

    def stop_api(self) -> None:
        self.run(self.api.stop())

    def start_api(self) -> None:
        self.run(self.api.start(self.port))

    def pods(self) -> list[Document]:
        return self.on_loop(lambda: [*self.api.objects.of("pods", NAMESPACE)])

    def running(self, name: str) -> int:
        """How many processes run for pods of this name."""
        return sum(1 for each in self.kubelets.started.get(name, ()) if each.returncode is None)

    def names(self, plural: str) -> set[str]:
        return self.on_loop(lambda: {each["metadata"]["name"] for each in self.api.objects.of(plural)})

    def add(self, plural: str, made: Document) -> None:
        namespace = "" if plural == "nodes" else NAMESPACE
        self.on_loop(lambda: self.api.objects.add(Key(plural, namespace, made["metadata"]["name"]), made))

    def change(self, plural: str, name: str, how: Callable[[Document], None]) -> None:
        namespace = "" if plural == "nodes" else NAMESPACE
        self.on_loop(lambda: self.api.objects.change(Key(plural, namespace, name), how))

    def remove(self, plural: str, name: str) -> None:
        """Forgets an object, whatever runs."""
        namespace = "" if plural == "nodes" else NAMESPACE
        self.on_loop(lambda: self.api.objects.remove(Key(plural, namespace, name)))

    def delete(self, name: str) -> None:
        """Somebody deletes a pod by hand."""
        self.on_loop(lambda: self.api.objects.delete(Key("pods", NAMESPACE, name), None))

    def delete_namespace(self) -> None:
        """Begins to: everything in it is deleted, and nothing can be made there."""

        def delete() -> None:
            self.api.terminating.add(NAMESPACE)
            for key in [each for each in self.api.objects.all if each.namespace == NAMESPACE]:
                self.api.objects.delete(key, None)

        self.on_loop(delete)

    @staticmethod
    async def _quiet() -> None:
        """Ends what is left of requests."""
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def close(self) -> None:
        self.run(self.kubelets.close())
        self.run(self.api.stop())
        self.run(self._quiet())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
