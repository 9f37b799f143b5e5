"""docs/parity.md says what is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from brickyard.api.app import all_operations
from brickyard.api.edge.routes import Routes
from brickyard.domain.states import State
from brickyard.plan.refused import REFUSED

ROOT = Path(__file__).parents[2]
PARITY = ROOT / "docs" / "parity.md"


def test_every_refused_field_is_in_the_ledger_and_no_other() -> None:
    lines = PARITY.read_text().splitlines()
    listed = {
        line.split("`")[1] for line in lines if line.startswith("| `") and "| refused |" in line and "/" not in line.split("`")[1]
    }
    assert listed == set(REFUSED)


CALLS = """
create get list start restart delete edit resize pin unpin list-node-types spark-versions events
update permanent-delete change-owner list-zones
"""
FIELDS = """
cluster_name spark_version node_type_id num_workers autoscale autotermination_minutes spark_conf aws_attributes
azure_attributes gcp_attributes custom_tags init_scripts spark_env_vars enable_elastic_disk driver_node_type_id
instance_pool_id policy_id
"""

POOL_CALLS = "create edit get list delete"
POOL_FIELDS = """
instance_pool_id instance_pool_name min_idle_instances max_capacity node_type_id custom_tags default_tags
idle_instance_autotermination_minutes enable_elastic_disk disk_spec preloaded_spark_versions state stats status instance_pools
used_count idle_count pending_used_count pending_idle_count disk_type disk_count disk_size azure_disk_volume_type
"""


def proofs() -> set[str]:
    return set(re.findall(r"tests/[\w/]+(?:\.py)?(?:::\w+)?", PARITY.read_text()))


def test_every_proof_that_is_named_is_there() -> None:
    named = proofs()
    assert len(named) > 50
    for proof in sorted(named):
        place, _, name = proof.partition("::")
        path = ROOT / place
        assert path.exists(), f"{place} is not there"
        if name:
            assert re.search(rf"^(async def |def |class |){name}\b", path.read_text(), re.MULTILINE), f"{proof} is not there"


def rows_of(heading: str) -> list[str]:
    section = PARITY.read_text().partition(f"## {heading}, row by row")[2].partition("\n## ")[0]
    return [line for line in section.splitlines() if line.startswith("|") and not line.startswith(("|---", "| call", "| field"))]


def names_in(rows: list[str]) -> set[str]:
    return {name for row in rows for name in re.findall(r"`([\w-]+)`", row.split("|")[1])}


@pytest.mark.parametrize(
    ("heading", "wanted"),
    [
        ("The Clusters API guide", {*CALLS.split(), *FIELDS.split(), *(state.value for state in State)}),
        ("The Instance Pools API page", {*POOL_CALLS.split(), *POOL_FIELDS.split()}),
    ],
    ids=["clusters", "pools"],
)
def test_every_call_field_and_state_of_a_page_has_its_row(heading: str, wanted: set[str]) -> None:
    rows = rows_of(heading)
    assert wanted <= names_in(rows)
    unproven = [row for row in rows if "::" not in row and "not yet" not in row and not row.startswith(("| state", "| rule"))]
    assert not unproven


def test_what_is_not_there_answers_so() -> None:
    """No operation has a path of the ledger's list: a client that asks gets ENDPOINT_NOT_FOUND, until the list is changed."""
    section = PARITY.read_text().partition("What clients ask for and is not there either.")[2].partition("\n## ")[0]
    paths = re.findall(r"`(/api/[^`]+)`", section)
    assert len(paths) > 1
    routes = Routes(all_operations())
    there = [path for path in paths for method in ("GET", "POST", "PUT") if routes.match(method, path, path.encode())]
    assert there == []
