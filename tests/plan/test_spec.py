"""Specifications: what is accepted, what is filled in, and what is refused by name."""

from __future__ import annotations

import contextlib
import re
import sys
import types
import typing
from collections.abc import Callable
from types import FrameType
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brickyard.domain.cluster import is_single_node
from brickyard.domain.errors import RETRY_PHRASES, ApiError, InvalidParameterValue
from brickyard.domain.policies import PolicyRow
from brickyard.domain.spec import (
    AutoScale,
    AwsAttributes,
    AwsAvailability,
    AzureAttributes,
    ClusterSpec,
    DataSecurityMode,
    GcpAttributes,
    Kind,
    NodeTypeFlexibility,
    RuntimeEngine,
)
from brickyard.plan import spec as rules
from brickyard.plan.mask import NOT_UPDATED, apply_mask
from brickyard.plan.policies.governing import NOTHING, govern
from brickyard.plan.spec import RULES, Offered
from brickyard.plan.specifying import mistakes, specify
from brickyard.plan.zones import ZONES
from brickyard.testing.builders import RUNTIMES, SIZES, SMALL, SPARK_4
from tests.support.golden import Golden

GOOD = ClusterSpec(cluster_name="c", spark_version="17.3.x-scala2.13", node_type_id="small", num_workers=2)
SINGLE_CONF = {"spark.databricks.cluster.profile": "singleNode", "spark.master": "local[*]"}


def flexible(*names: str) -> NodeTypeFlexibility:
    return NodeTypeFlexibility(alternate_node_type_ids=list(names))


TYPES = SIZES | {
    "tiny": msgspec.structs.replace(SMALL, node_type_id="tiny", memory_mb=1_024),
    "large": msgspec.structs.replace(SMALL, node_type_id="large", num_cores=8.0, memory_mb=16_384),
    "gpu": msgspec.structs.replace(SMALL, node_type_id="gpu", num_gpus=1),
}


OFFERED = Offered(node_types=TYPES, runtimes=RUNTIMES, users=frozenset({"other@example.com"}))


def check(spec: ClusterSpec, offered: Offered = OFFERED) -> ClusterSpec:
    return specify(spec, offered, user="me@example.com").spec


def but(**changes: Any) -> ClusterSpec:
    return msgspec.structs.replace(GOOD, **changes)


def test_defaults() -> None:
    spec = check(GOOD)
    assert (spec.driver_node_type_id, spec.autotermination_minutes, spec.enable_elastic_disk) == ("small", 120, True)
    assert check(but(autotermination_minutes=0)).autotermination_minutes == 0
    named = but(data_security_mode=DataSecurityMode.SINGLE_USER, single_user_name="other@example.com")
    assert check(named).single_user_name == "other@example.com"
    cased = but(data_security_mode=DataSecurityMode.SINGLE_USER, single_user_name="Other@Example.com")
    assert check(cased).single_user_name == "other@example.com"
    for mode in ("SINGLE_USER", "DATA_SECURITY_MODE_DEDICATED", "LEGACY_SINGLE_USER", "LEGACY_SINGLE_USER_STANDARD"):
        assert check(but(data_security_mode=DataSecurityMode(mode))).single_user_name == "me@example.com"


def test_users_are_kept_apart_on_spark_4() -> None:
    for mode in (DataSecurityMode.USER_ISOLATION, DataSecurityMode.DATA_SECURITY_MODE_STANDARD):
        assert check(but(data_security_mode=mode)).single_user_name is None


def test_the_engine_null_is_none() -> None:
    assert check(but(runtime_engine=RuntimeEngine.NULL)) == check(but())
    photon = {key: msgspec.structs.replace(each, key=key) for each in RUNTIMES.values() if (key := "17.3.x-photon-scala2.13")}
    named = but(runtime_engine=RuntimeEngine.NULL, spark_version="17.3.x-photon-scala2.13")
    assert rules.check(named, Offered(node_types=SIZES, runtimes=photon), user="u").mistakes == []


def test_single_node_in_both_spellings() -> None:
    by_conf = check(but(num_workers=0, spark_conf=SINGLE_CONF))
    by_silence = check(but(num_workers=None, spark_conf=SINGLE_CONF))
    assert by_silence == by_conf
    by_kind = check(but(num_workers=None, kind=Kind.CLASSIC_PREVIEW, is_single_node=True))
    assert is_single_node(by_conf)
    assert is_single_node(by_kind)
    sizes: list[dict[str, Any]] = [
        {"num_workers": 2},
        {"num_workers": None, "autoscale": AutoScale(min_workers=1, max_workers=3)},
    ]
    for size in sizes:
        sized = check(but(kind=Kind.CLASSIC_PREVIEW, is_single_node=True, **size))
        assert (sized.num_workers, sized.autoscale, is_single_node(sized)) == (0, None, True)
    assert by_kind.spark_conf == SINGLE_CONF
    assert by_kind.custom_tags == {"ResourceClass": "SingleNode"}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"num_workers": None}, ""),
        ({"node_type_id": None}, "node_type_id"),
        ({"spark_version": None}, "spark_version"),
        ({"spark_version": "13.0.x-scala2.11"}, ""),
        ({"spark_version": "17.3.x-photon-scala2.13", "runtime_engine": RuntimeEngine.STANDARD}, "runtime_engine"),
        ({"num_workers": 0}, ""),
        ({"num_workers": -1}, "num_workers"),
        ({"num_workers": 10**9}, "num_workers"),
        ({"num_workers": 1, "spark_conf": SINGLE_CONF}, "num_workers"),
        ({"node_type_id": "none.such"}, "node_type_id"),
        ({"driver_node_type_id": "none.such"}, "driver_node_type_id"),
        ({"autotermination_minutes": 5}, "autotermination_minutes"),
        ({"autotermination_minutes": 10001}, "autotermination_minutes"),
        ({"custom_tags": {str(n): "" for n in range(46)}}, "custom_tags"),
        ({"spark_env_vars": {"1A": "x"}}, "spark_env_vars"),
        ({"spark_conf": {"spark.master": "spark://x"}}, "spark_conf.spark.master"),
        ({"spark_conf": {"spark.authenticate": "false"}}, "spark_conf.spark.authenticate"),
        ({"autoscale": AutoScale(min_workers=1, max_workers=2)}, "num_workers"),
        (
            {"autoscale": AutoScale(min_workers=2, max_workers=2), "num_workers": None},
            "min_workers",
        ),
        ({"autoscale": AutoScale(min_workers=1, max_workers=2), "num_workers": 0, "spark_conf": SINGLE_CONF}, ""),
        ({"spark_conf": {"spark.databricks.aggressiveWindowDownS": "1h"}}, "spark.databricks"),
        ({"instance_pool_id": "p"}, ""),
        ({"runtime_engine": RuntimeEngine.PHOTON}, "runtime_engine"),
        ({"data_security_mode": DataSecurityMode.LEGACY_TABLE_ACL}, "data_security_mode"),
        ({"data_security_mode": DataSecurityMode.LEGACY_PASSTHROUGH}, "data_security_mode"),
        (
            {"data_security_mode": DataSecurityMode.USER_ISOLATION, "spark_version": "16.4.x-scala2.12"},
            "data_security_mode",
        ),
        ({"worker_node_type_flexibility": flexible("none.such")}, "worker_node_type_flexibility.alternate_node_type_ids"),
        ({"driver_node_type_flexibility": flexible("none.such")}, "driver_node_type_flexibility.alternate_node_type_ids"),
        ({"worker_node_type_flexibility": flexible("tiny")}, ""),
        ({"driver_node_type_flexibility": flexible("gpu")}, ""),
        ({"aws_attributes": AwsAttributes(zone_id="mars-1a")}, "aws_attributes.zone_id"),
        ({"gcp_attributes": GcpAttributes(zone_id="us-west-2")}, "gcp_attributes.zone_id"),
        ({"aws_attributes": AwsAttributes(spot_bid_price_percent=10_001)}, "aws_attributes.spot_bid_price_percent"),
        ({"aws_attributes": AwsAttributes(first_on_demand=-1)}, "aws_attributes.first_on_demand"),
        ({"azure_attributes": AzureAttributes(spot_bid_max_price=-0.5)}, "azure_attributes.spot_bid_max_price"),
        ({"custom_tags": {"": "x"}}, "custom_tags"),
        ({"custom_tags": {"x": "y" * 256}}, "custom_tags"),
        ({"cluster_name": "x" * 1001}, "cluster_name"),
        ({"is_single_node": True, "num_workers": None}, "is_single_node"),
        ({"use_ml_runtime": True}, "CLASSIC_PREVIEW"),
        ({"use_ml_runtime": True, "kind": Kind.CLASSIC_PREVIEW}, "use_ml_runtime"),
        ({"single_user_name": "me@example.com"}, "data_security_mode"),
    ],
)
def test_refusals_name_the_field_and_the_rule(changes: dict[str, Any], field: str, golden: Golden) -> None:
    with pytest.raises(InvalidParameterValue) as refused:
        check(but(**changes))
    golden(refused.value.message, field)
    assert not any(phrase in refused.value.message for phrase in RETRY_PHRASES)


def test_empty_values_of_refused_fields_mean_absent() -> None:
    check(but(ssh_public_keys=[], init_scripts=[], policy_id="", enable_local_disk_encryption=False))


def test_alternates_are_as_large_for_workers_and_any_size_for_drivers() -> None:
    check(but(worker_node_type_flexibility=flexible("large", "small"), driver_node_type_flexibility=flexible("tiny")))


def test_photon_is_accepted_where_the_workspace_says_what_it_gets() -> None:
    asked = but(runtime_engine=RuntimeEngine.PHOTON)
    accepted = check(asked, msgspec.structs.replace(OFFERED, photon=True))
    assert accepted.runtime_engine is RuntimeEngine.PHOTON


NATIVE = msgspec.structs.replace(SPARK_4, key="17.3.x-photon-scala2.13")
WITH_NATIVE = msgspec.structs.replace(OFFERED, runtimes=RUNTIMES | {NATIVE.key: NATIVE})


def test_photon_is_accepted_by_field_and_by_key_where_the_runtime_has_it() -> None:
    for asked in (but(runtime_engine=RuntimeEngine.PHOTON), but(spark_version=NATIVE.key)):
        assert check(asked, WITH_NATIVE) == check(check(asked, WITH_NATIVE), WITH_NATIVE)
        apart = msgspec.structs.replace(asked, data_security_mode=DataSecurityMode.USER_ISOLATION)
        with pytest.raises(InvalidParameterValue, match="USER_ISOLATION"):
            check(apart, WITH_NATIVE)
    with pytest.raises(InvalidParameterValue, match=re.escape("17.3.x-scala2.13")):  # the one that has it
        check(but(spark_version="16.4.x-scala2.12", runtime_engine=RuntimeEngine.PHOTON), WITH_NATIVE)


def test_layers_that_the_runtime_cannot_have_are_refused_with_those_that_can() -> None:
    older = next(each for each in RUNTIMES.values() if each.key != SPARK_4.key)
    runtimes = {
        SPARK_4.key: msgspec.structs.replace(SPARK_4, layers=("delta", "s3a")),
        older.key: msgspec.structs.replace(older, layers=("delta",)),
    }
    offered = msgspec.structs.replace(OFFERED, runtimes=runtimes)

    def layers(names: str, key: str = SPARK_4.key) -> ClusterSpec:
        return check(but(spark_version=key, spark_conf={"spark.brickyard.layers": names}), offered)

    for accepted in ("delta,s3a", " s3a ", ""):
        layers(accepted)
    with pytest.raises(InvalidParameterValue, match=f"'s3a'.*{re.escape(SPARK_4.key)}"):
        layers("delta,s3a", older.key)
    with pytest.raises(InvalidParameterValue, match=r"spark_conf.*'gcs'"):
        layers("gcs")


def test_iceberg_is_a_layer_or_a_part_of_the_runtime_and_neither_where_users_are_kept_apart() -> None:
    older = next(each for each in RUNTIMES.values() if each.key != SPARK_4.key)
    layer, part = (
        msgspec.structs.replace(SPARK_4, layers=("iceberg",)),
        msgspec.structs.replace(older, iceberg="1.10.2", layers=()),
    )
    offered = msgspec.structs.replace(OFFERED, runtimes={layer.key: layer, part.key: part})
    conf = {"spark.brickyard.layers": "iceberg"}
    for key in (layer.key, part.key):
        assert check(but(spark_version=key, spark_conf=conf), offered).spark_conf == conf
    with pytest.raises(InvalidParameterValue, match=r"spark_conf.*'iceberg'.*USER_ISOLATION"):
        check(but(spark_version=layer.key, spark_conf=conf, data_security_mode=DataSecurityMode.USER_ISOLATION), offered)
    none = msgspec.structs.replace(offered, runtimes={layer.key: layer, part.key: msgspec.structs.replace(part, iceberg="")})
    with pytest.raises(InvalidParameterValue, match=f"'iceberg'.*{re.escape(layer.key)}"):
        check(but(spark_version=part.key, spark_conf=conf), none)


def test_what_holds_without_a_cloud_is_accepted() -> None:
    attributes = AwsAttributes(zone_id="us-west-2a", availability=AwsAvailability.SPOT_WITH_FALLBACK, spot_bid_price_percent=50)
    assert check(but(aws_attributes=attributes)).aws_attributes == attributes


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a type, optional ones absent now and then; objects with every field."""
    if isinstance(kind, types.UnionType):
        return st.one_of([st.none() if part is types.NoneType else values(part) for part in typing.get_args(kind)])
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return st.builds(kind, **{field.name: values(field.type) for field in msgspec.structs.fields(kind)})
    if typing.get_origin(kind) is list:
        return st.lists(values(typing.get_args(kind)[0]), max_size=2)
    if typing.get_origin(kind) is dict:
        return st.dictionaries(values(str), values(str), max_size=2)
    return st.from_type(kind)


LIKELY: dict[str, st.SearchStrategy[Any]] = {
    "spark_version": st.sampled_from([*RUNTIMES, "x", ""]),
    "node_type_id": st.sampled_from(["small", "big", None]),
    "driver_node_type_id": st.sampled_from(["small", "", None]),
    "num_workers": st.none() | st.integers(0, 3) | st.integers(),
    "autotermination_minutes": st.none() | st.integers(0, 12_000),
    "spark_conf": st.none() | st.just(SINGLE_CONF) | values(dict[str, str]),
}
ANY_SPEC = st.builds(ClusterSpec, **{field.name: values(field.type) for field in msgspec.structs.fields(ClusterSpec)} | LIKELY)
# Only the fields that are mostly accepted, so that acceptance is tried as well.
NEAR_SPEC = st.builds(
    ClusterSpec,
    **LIKELY,
    custom_tags=st.none() | st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3),
    spark_env_vars=st.none() | st.dictionaries(st.sampled_from(["A", "B_1", "1"]), st.text(max_size=5), max_size=2),
    kind=st.sampled_from([None, Kind.CLASSIC_PREVIEW]),
    is_single_node=st.sampled_from([None, True, False]),
    data_security_mode=st.none() | st.sampled_from(DataSecurityMode),
    aws_attributes=st.none()
    | st.builds(AwsAttributes, first_on_demand=st.none() | st.integers(), zone_id=st.sampled_from(ZONES)),
)


@given(ANY_SPEC | NEAR_SPEC)
def test_any_specification_is_refused_or_holds(spec: ClusterSpec) -> None:
    try:
        accepted = check(spec)
    except ApiError as refused:
        assert refused.message
        return
    assert check(accepted) == accepted
    assert (accepted.num_workers is None) == (accepted.autoscale is not None)
    assert accepted.autotermination_minutes is not None
    assert (accepted.num_workers == 0) == is_single_node(accepted)
    assert accepted.driver_node_type_id in SIZES
    assert msgspec.json.decode(msgspec.json.encode(accepted), type=ClusterSpec) == accepted


def _called(work: Callable[[], object]) -> set[str]:
    """The functions of the planner that the work calls."""
    called: set[str] = set()

    def trace(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and "/brickyard/plan/" in frame.f_code.co_filename:
            called.add(f"{frame.f_code.co_qualname}:{frame.f_code.co_firstlineno}")

    sys.setprofile(trace)
    try:
        with contextlib.suppress(InvalidParameterValue):
            work()
    finally:
        sys.setprofile(None)
    return {each for each in called if not each.startswith((specify.__name__, mistakes.__name__))}


@pytest.mark.parametrize("number", range(len(RULES)))
def test_each_rule_is_a_rule_of_the_call_and_of_its_validation(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise InvalidParameterValue("refused")

    assert mistakes(GOOD, OFFERED, user="me") == []
    monkeypatch.setattr(rules, "RULES", [(f, refuse if at == number else rule) for at, (f, rule) in enumerate(RULES)])
    with pytest.raises(InvalidParameterValue, match="refused"):
        specify(GOOD, OFFERED, user="me")
    assert [each.message for each in mistakes(GOOD, OFFERED, user="me")] == ["refused"]


@pytest.mark.parametrize("policy", [None, PolicyRow(policy_id="p", name="p", definition="{}")])
@pytest.mark.parametrize("spec", [GOOD, but(num_workers=-1), but(spark_version="none", node_type_id="none")])
def test_the_call_and_its_validation_check_the_same(spec: ClusterSpec, policy: PolicyRow | None) -> None:
    """Whatever `specify` checks besides the rules, `validate_only` must check too."""
    offered = msgspec.structs.replace(OFFERED, governed=govern(spec, policy, NOTHING) if policy else None)
    assert _called(lambda: specify(spec, offered, user="me")) == _called(lambda: mistakes(spec, offered, user="me"))


UPDATED = sorted(set(ClusterSpec.__struct_fields__) - NOT_UPDATED)


@given(NEAR_SPEC, NEAR_SPEC, st.lists(st.sampled_from(UPDATED), min_size=1, max_size=5))
def test_a_mask_changes_what_it_names_and_nothing_else(old: ClusterSpec, new: ClusterSpec, paths: list[str]) -> None:
    result = apply_mask(old, new, ",".join(paths))
    for name in ClusterSpec.__struct_fields__:
        assert getattr(result, name) == getattr(new if name in paths else old, name)


def test_a_size_of_one_kind_replaces_the_other(golden: Golden) -> None:
    scale = AutoScale(min_workers=1, max_workers=4)
    ranged = apply_mask(GOOD, ClusterSpec(autoscale=scale), "autoscale")
    assert (ranged.num_workers, ranged.autoscale) == (None, scale)
    assert apply_mask(ranged, ClusterSpec(autoscale=AutoScale(max_workers=9)), "autoscale.max_workers").autoscale == AutoScale(
        min_workers=1, max_workers=9
    )
    fixed = apply_mask(ranged, ClusterSpec(num_workers=3), "num_workers")
    assert (fixed.num_workers, fixed.autoscale) == (3, None)
    both = apply_mask(ranged, ClusterSpec(num_workers=3, autoscale=scale), "num_workers,autoscale")
    with golden.refused(InvalidParameterValue):
        check(both)
    assert check(ranged).num_workers is None


def test_masks() -> None:
    old = but(spark_conf={"a": "b"}, aws_attributes=AwsAttributes(zone_id="us-west-2a", first_on_demand=1))
    new = ClusterSpec(num_workers=5, aws_attributes=AwsAttributes(zone_id="us-west-2b"))
    assert apply_mask(old, new, "num_workers").num_workers == 5
    assert apply_mask(old, new, "num_workers").spark_conf == {"a": "b"}
    assert apply_mask(old, new, "spark_conf").spark_conf is None
    assert apply_mask(old, new, "aws_attributes.zone_id").aws_attributes == AwsAttributes(zone_id="us-west-2b", first_on_demand=1)
    assert apply_mask(old, new, "*") == new
    assert apply_mask(old, ClusterSpec(), "aws_attributes").aws_attributes is None
    assert apply_mask(GOOD, new, "aws_attributes.zone_id").aws_attributes == AwsAttributes(zone_id="us-west-2b")
    assert apply_mask(GOOD, ClusterSpec(), "aws_attributes.zone_id") == GOOD
    nowhere = (
        "nonsense",
        "apply_policy_default_values",
        "__class__",
        "aws_attributes.nonsense",
        "aws_attributes.",
        "aws_attributes.zone_id.x",
    )
    for bad in ("", ",", "spark_conf.a", "num_workers.x", *nowhere):
        with pytest.raises(InvalidParameterValue):
            apply_mask(old, new, bad)
