"""A workspace that the tests of a module share, and clusters that all tests of a process share."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from tests.spark.live import Live
from tests.spark.shared import Kind, Lent, SharedClusters
from tests.support.ports import free_port


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    made = Live(tmp_path_factory.mktemp("live") / "workspace")
    made.start()
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedClusters]:
    """One workspace for all tests that need no server of their own. `lent_*` give its clusters to a test."""
    made = Live(tmp_path_factory.mktemp("shared") / "workspace")
    made.settings = msgspec.structs.replace(made.settings, connect_port=free_port())
    made.start()
    try:
        yield SharedClusters(made, made.data)
    finally:
        made.close()


@pytest.fixture
def lent_single(shared: SharedClusters, request: pytest.FixtureRequest) -> Iterator[Lent]:
    """A cluster of one node."""
    with shared.lent(Kind.SINGLE, request.node.nodeid) as lent:
        yield lent


@pytest.fixture
def lent_isolated(shared: SharedClusters, request: pytest.FixtureRequest) -> Iterator[Lent]:
    """A cluster of one node that keeps its users apart."""
    with shared.lent(Kind.ISOLATED, request.node.nodeid) as lent:
        yield lent
