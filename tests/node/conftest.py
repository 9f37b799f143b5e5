"""Installed runtimes for tests on real Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.node.node import Node
from tests.support.runtimes import SPARK_3, SPARK_4, manifest_of


@pytest.fixture(scope="session", params=[SPARK_4, SPARK_3])
def manifest(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Every line of Spark that needs code of its own, one after the other."""
    return manifest_of(request.param)


@pytest.fixture
def new_node(tmp_path: Path, manifest: dict[str, Any]) -> Iterator[Callable[[], Node]]:
    nodes: list[Node] = []

    def make() -> Node:
        nodes.append(Node(tmp_path / f"node{len(nodes)}", manifest))
        return nodes[-1]

    yield make
    for node in nodes:
        node.close()
