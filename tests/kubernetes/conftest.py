"""A fake cluster, and providers on it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from brickyard.config.settings import Settings
from brickyard.providers.base import Setup
from brickyard.providers.kubernetes import open_provider
from brickyard.providers.kubernetes.provider import KubernetesProvider
from brickyard.runtime.catalogue import rows
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.schemas import Document

WORKSPACE = "1234567890123456"
Open = Callable[..., KubernetesProvider]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path / "cluster")
    try:
        yield made
    finally:
        made.close()


def section(cluster: Cluster, tmp_path: Path, **more: Any) -> Document:
    """The settings of a provider of that cluster."""
    return {
        "kubeconfig": str(cluster.kubeconfig),
        "image": "example.org/brickyard:1",
        "run_as_user": os.geteuid() or 1000,  # the fake's processes run as this test's user
        "machine_dir": str(tmp_path / "machine/brickyard"),
        **more,
    }


def make_setup(tmp_path: Path, table: Document) -> Setup:
    storage = tmp_path / "storage"
    storage.mkdir(exist_ok=True)
    (storage / "workspace.id").write_text(f"{WORKSPACE}\n")
    settings = Settings(
        data_dir=tmp_path / "data", cache_dir=tmp_path / "cache", storage_url=str(storage), provider="kubernetes",
        sections={"kubernetes": table},
    )  # fmt: skip
    return Setup(settings=settings, server_url="http://127.0.0.1:1", workspace_id=WORKSPACE, runtimes=rows())


@pytest.fixture
def opened(cluster: Cluster, tmp_path: Path) -> Iterator[Open]:
    """Opens a provider as a server does; each call is another server."""
    made: list[KubernetesProvider] = []

    def open_one(**more: Any) -> KubernetesProvider:
        made.append(open_provider(make_setup(tmp_path, section(cluster, tmp_path, **more))))
        return made[-1]

    try:
        yield open_one
    finally:
        for each in made:
            each.close(keep_nodes=True)
