"""Clusters that tests share (shared.py), on the simulated provider."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from databricks.sdk.service.compute import State

from brickyard.providers.nodetypes import cloud_types
from brickyard.providers.simulated import SimulatedProvider
from brickyard.providers.simulated.kernels import Answer
from tests.spark.live import User
from tests.spark.shared import Kind, Lent, SharedClusters
from tests.support.server import Server


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[SharedClusters]:
    machines = SimulatedProvider(node_types=cloud_types())
    machines.kernels.compute = lambda _: Answer(results={})  # drivers say who is attached
    with Server.running(tmp_path / "workspace", provider="simulated", instances=machines) as server:
        yield SharedClusters(User(server.client()), server.data_dir, node_type="i3.xlarge")


def borrowed(shared: SharedClusters, test: str = "a test") -> str:
    """The cluster that a test gets which does nothing with it."""
    with shared.lent(Kind.SINGLE, test) as lent:
        return lent.cluster_id


def test_a_cluster_is_lent_again(shared: SharedClusters) -> None:
    assert borrowed(shared) == borrowed(shared)


def end(lent: Lent) -> None:
    lent.user.w.clusters.delete(lent.cluster_id)
    lent.user.wait(lent.cluster_id, State.TERMINATED)


def test_who_ends_a_cluster_is_named_and_the_next_test_gets_another(shared: SharedClusters) -> None:
    before = borrowed(shared)
    with pytest.raises(pytest.fail.Exception, match="the guilty one has left a shared cluster"), \
            shared.lent(Kind.SINGLE, "the guilty one") as lent:  # fmt: skip
        end(lent)
    assert borrowed(shared) != before


def test_a_cluster_that_ends_later_is_replaced_with_a_warning(shared: SharedClusters) -> None:
    with shared.lent(Kind.SINGLE, "the last one") as lent:
        pass
    end(lent)
    with pytest.warns(match="has ended after the last one"):
        assert borrowed(shared) != lent.cluster_id


def test_who_leaves_files_is_named(shared: SharedClusters) -> None:
    with shared.lent(Kind.SINGLE, "a tidy one") as lent:
        lent.user.touch(f"{lent.directory}/file")
    with pytest.raises(pytest.fail.Exception, match=r"the guilty one has left .*dbfs/litter"), \
            shared.lent(Kind.SINGLE, "the guilty one") as lent:  # fmt: skip
        lent.user.touch("/litter")
