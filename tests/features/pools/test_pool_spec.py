"""From what was asked of a pool to what holds."""

from __future__ import annotations

from pathlib import Path

import msgspec

from brickyard.domain.errors import RETRY_PHRASES, InvalidParameterValue
from brickyard.domain.pools import (
    CreateInstancePool,
    DiskSpec,
    EditInstancePool,
    InstancePoolAzureAttributes,
    InstancePoolGcpAttributes,
    Pool,
)
from brickyard.domain.spec import AzureAvailability, ClusterSpec, GcpAvailability
from brickyard.features.pools.rules import REFUSED, edited_spec, pool_spec, without_effect
from brickyard.plan.spec import Checked, Offered, check, named_pools
from brickyard.testing.builders import NOW, RUNTIMES, SIZES, SMALL
from tests.support.golden import Golden

RUNTIME = "17.3.x-scala2.13"
ASK = CreateInstancePool(instance_pool_name="p", node_type_id="small", min_idle_instances=1, max_capacity=9)
TYPES = {**SIZES, "large": msgspec.structs.replace(SMALL, node_type_id="large")}


def made(request: CreateInstancePool = ASK, name: str = "0101-000000-a-pool-A") -> Pool:
    spec = pool_spec(request, node_types=TYPES, runtimes=[RUNTIME])
    return Pool(instance_pool_id=name, creator_user_name="u", creator_user_id="1", created_ms=NOW, spec=spec)


def edit(**fields: object) -> EditInstancePool:
    values: dict[str, object] = {"instance_pool_id": "p", "instance_pool_name": "p", "node_type_id": "small", **fields}
    return EditInstancePool(**values)  # type: ignore[arg-type] # keyword arguments of a struct


def test_what_is_refused_is_in_the_documentation_and_nothing_else() -> None:
    text = (Path(__file__).parents[3] / "docs" / "pools.md").read_text()
    listed = {line.split("`")[1]: line for line in text.splitlines() if line.startswith("| `")}
    assert set(listed) == set(REFUSED)
    assert all(REFUSED[field][1] in line for field, line in listed.items())


def test_an_edit_takes_sizes_also_where_they_are_left_out_and_keeps_the_rest() -> None:
    before = made(msgspec.structs.replace(ASK, custom_tags={"a": "b"}, preloaded_spark_versions=[RUNTIME]))
    after = edited_spec(before, edit(instance_pool_name="q", min_idle_instances=4))
    assert (after.instance_pool_name, after.min_idle_instances, after.max_capacity) == ("q", 4, None)
    assert (after.custom_tags, after.preloaded_spark_versions) == ({"a": "b"}, [RUNTIME])
    assert edited_spec(before, edit(custom_tags={})).custom_tags == {}


def test_an_edit_may_repeat_what_it_cannot_change_and_no_more(golden: Golden) -> None:
    before = made(msgspec.structs.replace(ASK, preloaded_spark_versions=[RUNTIME]))
    edited_spec(before, edit(preloaded_spark_versions=[RUNTIME], enable_elastic_disk=True))
    wrongs: list[dict[str, object]] = [
        {"preloaded_spark_versions": []},
        {"enable_elastic_disk": False},
        {"node_type_id": "large"},
    ]
    for wrong in wrongs:
        with golden.refused(InvalidParameterValue) as caught:
            edited_spec(before, edit(**wrong))
        assert not any(phrase in caught.value.message for phrase in RETRY_PHRASES)


def test_what_has_no_effect_is_kept_and_said(golden: Golden) -> None:
    for count in (0, 1):
        spec = made(msgspec.structs.replace(ASK, disk_spec=DiskSpec(disk_count=count))).spec
        assert spec.disk_spec == DiskSpec(disk_count=count)
        assert [each.partition(" ")[0] for each in without_effect(spec)] == ["disk_spec"] * count
    azure = InstancePoolAzureAttributes(availability=AzureAvailability.SPOT_AZURE)
    gcp = InstancePoolGcpAttributes(gcp_availability=GcpAvailability.PREEMPTIBLE_WITH_FALLBACK_GCP)
    spec = made(msgspec.structs.replace(ASK, azure_attributes=azure, gcp_attributes=gcp)).spec
    assert [each.partition(" is")[0] for each in without_effect(spec)] == [
        "azure_attributes.availability SPOT_AZURE",
        "gcp_attributes.gcp_availability PREEMPTIBLE_WITH_FALLBACK_GCP",
    ]
    assert without_effect(made().spec) == []
    with golden.refused(InvalidParameterValue, "disk_spec"):
        made(msgspec.structs.replace(ASK, disk_spec=DiskSpec(disk_size=-1)))


def test_nodes_are_of_their_pools_type() -> None:
    pools = {"w": made(name="w"), "d": made(msgspec.structs.replace(ASK, node_type_id="large"), name="d")}
    asked = ClusterSpec(spark_version=RUNTIME, instance_pool_id="w", driver_instance_pool_id="d", num_workers=1)
    assert named_pools(asked) == {"w", "d"}
    offered = Offered(node_types=TYPES, runtimes=RUNTIMES, pools=pools)
    spec = check(asked, offered, user="u").spec
    assert (spec.node_type_id, spec.driver_node_type_id) == ("small", "large")
    assert check(spec, offered, user="u") == Checked(spec, [])
    alone = msgspec.structs.replace(asked, driver_instance_pool_id=None)
    spec = check(alone, offered, user="u").spec
    assert (spec.driver_instance_pool_id, spec.driver_node_type_id) == ("w", "small")
