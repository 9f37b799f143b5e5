"""What a node is told to be."""

from __future__ import annotations

import msgspec
import pytest

from brickyard.domain.cluster import Cluster
from brickyard.domain.node import Assignment, Role
from brickyard.domain.nodetypes import NodeType
from brickyard.domain.spec import AutoScale, DataSecurityMode, RuntimeEngine
from brickyard.plan.assignments import assignment_for, runtime_of
from brickyard.testing.builders import SIZES, cluster

LARGE = NodeType(node_type_id="large", num_cores=8.0, memory_mb=32_768, category="General Purpose", num_gpus=1)
HALF = NodeType(node_type_id="half", num_cores=0.5, memory_mb=1_024, category="General Purpose")
TYPES = {**SIZES, "large": LARGE, "half": HALF}


def with_spec(of: Cluster, **fields: object) -> Cluster:
    return msgspec.structs.replace(of, spec=msgspec.structs.replace(of.spec, **fields))


def assigned(of: Cluster, role: Role, node_type_id: str) -> Assignment:
    return assignment_for(of, role=role, node_type_id=node_type_id, sizes=TYPES)


def test_a_driver_knows_the_size_of_its_workers() -> None:
    of = with_spec(cluster(), driver_node_type_id="large")
    driver, worker = assigned(of, Role.DRIVER, "large"), assigned(of, Role.WORKER, "small")
    assert (driver.cores, driver.memory_mb, driver.gpus) == (8, 32_768, 1)
    assert (worker.cores, worker.memory_mb, worker.gpus) == (1, 2_048, 0)
    for each in (driver, worker):
        assert (each.worker_cores, each.worker_memory_mb) == (1, 2_048)


def test_a_single_node_has_no_workers() -> None:
    alone = assigned(cluster(single=True), Role.SINGLE, "small")
    assert (alone.worker_cores, alone.worker_memory_mb, alone.most_workers) == (0, 0, 0)


@pytest.mark.parametrize(("size", "most"), [({"num_workers": 3}, 3), ({"autoscale": AutoScale(min_workers=1, max_workers=8)}, 8)])
def test_a_driver_knows_how_many_workers_there_may_be(size: dict[str, object], most: int) -> None:
    of = with_spec(cluster(), **{"num_workers": None, **size})
    assert assigned(of, Role.DRIVER, "small").most_workers == most
    assert assigned(of, Role.WORKER, "small").most_workers == 0


def test_drivers_have_the_workspaces_format_of_tables() -> None:
    for role, expected in ((Role.DRIVER, "delta"), (Role.SINGLE, "delta"), (Role.WORKER, "parquet")):
        made = assignment_for(cluster(), role=role, node_type_id="small", sizes=TYPES, table_format="delta")
        assert made.table_format == expected


@pytest.mark.parametrize("mode", DataSecurityMode)
def test_users_are_kept_apart_where_the_mode_says_so(mode: DataSecurityMode) -> None:
    told = assigned(with_spec(cluster(), data_security_mode=mode), Role.DRIVER, "small")
    assert told.user_isolation is (mode.value in ("USER_ISOLATION", "DATA_SECURITY_MODE_STANDARD"))


def test_every_node_has_a_core() -> None:
    assert assigned(with_spec(cluster(), node_type_id="half"), Role.WORKER, "half").worker_cores == 1


def test_nodes_know_the_tags_and_none_of_the_users_hides_a_default_one() -> None:
    tagged = with_spec(cluster(), custom_tags={"Vendor": "mine", "team": "a"})
    found = assigned(tagged, Role.DRIVER, "small")
    assert found.default_tags == {
        "Vendor": "Databricks",
        "Creator": "someone@example.com",
        "ClusterName": "test",
        "ClusterId": "0101-000000-testtest",
    }
    assert found.custom_tags == {"x_Vendor": "mine", "team": "a"}


@pytest.mark.parametrize(
    ("fields", "photon", "key"),
    [
        ({"runtime_engine": RuntimeEngine.PHOTON}, True, "17.3.x-photon-scala2.13"),
        ({"runtime_engine": RuntimeEngine.PHOTON}, False, "17.3.x-scala2.13"),
        ({"runtime_engine": RuntimeEngine.STANDARD}, True, "17.3.x-scala2.13"),
        (
            {"runtime_engine": RuntimeEngine.PHOTON, "data_security_mode": DataSecurityMode.USER_ISOLATION},
            True,
            "17.3.x-scala2.13",
        ),
        ({"spark_version": "17.3.x-photon-scala2.13"}, True, "17.3.x-photon-scala2.13"),
    ],
)
def test_both_spellings_of_photon_are_one_runtime_of_nodes(fields: dict[str, object], photon: bool, key: str) -> None:
    assert runtime_of(with_spec(cluster(), **fields).spec, photon=photon) == key
