"""Policies: the language, and what a policy makes of specifications."""

from __future__ import annotations

import json
import time
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brickyard.domain.nodetypes import NodeType
from brickyard.domain.spec import AutoScale, ClusterSpec, InitScriptInfo, RuntimeEngine, VolumesStorageInfo
from brickyard.plan.policies.attributes import UnknownAttribute, ValueType, attribute, put, spots, value_at
from brickyard.plan.policies.evaluation import Change, apply, enforce, locks, violations
from brickyard.plan.policies.families import FAMILIES, merged
from brickyard.plan.policies.language import Definition, parse
from brickyard.plan.policies.limits import Facts, bad_defaults
from tests.support.golden import Golden

SPEC = ClusterSpec(cluster_name="c", spark_version="17.3.x-scala2.13", node_type_id="small", num_workers=2)
FACTS = Facts(versions={"auto:latest-lts": "17.3.x-scala2.13", "auto:latest": "18.2.x-scala2.13"})


def policy(**rules: dict[str, Any]) -> Definition:
    """A definition; two underscores in a name are a dot."""
    return written({name.replace("__", "."): rule for name, rule in rules.items()})


def written(rules: dict[str, dict[str, Any]]) -> Definition:
    definition, problems = parse(json.dumps(rules))
    assert not problems
    return definition


def said(definition: Definition, spec: ClusterSpec, facts: Facts = FACTS) -> list[str]:
    return [str(each) for each in violations(definition, given=spec, effective=spec, facts=facts)]


def at(price: float) -> dict[str, NodeType]:
    """The node type of SPEC, which has three nodes, at that price."""
    return {"small": NodeType(node_type_id="small", num_cores=1, memory_mb=1, category="", price_per_hour=price)}


def but(**changes: Any) -> ClusterSpec:
    return msgspec.structs.replace(SPEC, **changes)


# ── the language ────────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("num_workers", ValueType.INTEGER),
        ("spark_conf.spark.databricks.cluster.profile", ValueType.TEXT),
        ("init_scripts.*.volumes.destination", ValueType.TEXT),
        ("init_scripts.0.s3.region", ValueType.TEXT),
        ("ssh_public_keys.*", ValueType.TEXT),
        ("azure_attributes.spot_bid_max_price", ValueType.NUMBER),
        ("workload_type.clients.jobs", ValueType.FLAG),
        ("autoscale", ValueType.TREE),
        ("cluster_log_conf.type", ValueType.TEXT),
        ("dbus_per_hour", ValueType.NUMBER),
    ],
)
def test_attributes(path: str, kind: ValueType) -> None:
    assert attribute(path).type is kind


@pytest.mark.parametrize(
    "path",
    [
        "num_worker",
        "autoscale.max",
        "num_workers.x",
        "init_scripts.x.volumes.destination",
        "init_scripts.01.volumes.destination",
        "spark_conf.*",
        "spark_conf.",
        "policy_id",
        "",
    ],
)
def test_unknown_attributes_say_where_they_go_wrong(path: str, golden: Golden) -> None:
    with golden.refused(UnknownAttribute):
        attribute(path)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"num_workers": 1}',
        '{"num_workers": {"type": "fix", "value": 1}}',
        '{"num_workers": {"type": ["fixed"], "value": 1}}',
        '{"num_workers": {"type": "fixed"}}',
        '{"num_workers": {"type": "fixed", "value": 1, "values": [1]}}',
        '{"num_workers": {"type": "fixed", "value": 1.5}}',
        '{"num_workers": {"type": "fixed", "value": true}}',
        '{"num_workers": {"type": "range"}}',
        '{"num_workers": {"type": "range", "minValue": 3, "maxValue": 2}}',
        '{"node_type_id": {"type": "range", "maxValue": 2}}',
        '{"node_type_id": {"type": "allowlist", "values": []}}',
        '{"node_type_id": {"type": "regex", "pattern": "("}}',
        '{"node_type_id": {"type": "unlimited", "isOptional": "yes"}}',
        '{"data_security_mode": {"type": "fixed", "value": "SHARED"}}',
        '{"autoscale": {"type": "fixed", "value": 1}}',
        '{"dbus_per_hour": {"type": "fixed", "value": 1}}',
        '{"cluster_type": {"type": "fixed", "value": "sql"}}',
        '{"init_scripts.1.file.destination": {"type": "fixed", "value": "x"}}',
    ],
)
def test_a_definition_says_what_is_wrong_with_it(text: str, golden: Golden) -> None:
    _, problems = parse(text)
    golden("; ".join(str(each) for each in problems))


def test_sound_rules_stand_beside_wrong_ones() -> None:
    definition, problems = parse('{"num_workers": {"type": "fixed", "value": "3"}, "x": {"type": "forbidden"}, "y": 1}')
    assert [rule.values for rule in definition.rules] == [(3,)]
    assert [each.path for each in problems] == ["x", "y"]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_any_json_is_a_definition_or_a_problem(value: Any) -> None:
    parse(json.dumps(value))
    parse(json.dumps({"num_workers": value}))
    parse(json.dumps({"num_workers": {"type": "fixed", "value": value}}))
    parse(json.dumps({"spark_version": {"type": "allowlist", "values": value, "defaultValue": value}}))


def test_families_are_sound() -> None:
    for family in FAMILIES:
        assert parse(family.definition)[1] == (), family.name
    overridden = merged(FAMILIES[0].definition, '{"node_type_id": {"type": "fixed", "value": "small"}}')
    definition, problems = parse(overridden)
    assert not problems
    assert [rule.values for rule in definition.rules if rule.on.path == "node_type_id"] == [("small",)]


# ── what is set, and what is violated ───────────────────────────────────────────────────────────────────────────────────────────


def test_messages(golden: Golden) -> None:
    definition = written(
        {
            "spark_conf.spark.x": {"type": "unlimited"},
            "driver_node_type_id": {"type": "fixed", "value": "i3.2xlarge"},
            "enable_elastic_disk": {"type": "fixed", "value": True},
            "node_type_id": {"type": "allowlist", "values": ["a", "b"]},
            "num_workers": {"type": "range", "maxValue": 1},
            "autotermination_minutes": {"type": "range", "minValue": 10},
            "cluster_name": {"type": "regex", "pattern": "team-.*"},
            "spark_version": {"type": "blocklist", "values": ["17.3.x-scala2.13"]},
            "custom_tags.team": {"type": "forbidden"},
        }
    )
    spec = but(driver_node_type_id="i3.xlarge", enable_elastic_disk=False, custom_tags={"team": "x"}, autotermination_minutes=0)
    golden("\n".join(said(definition, spec)))


def test_fixed_values_are_set_and_defaults_only_when_asked_for() -> None:
    definition = policy(
        autotermination_minutes={"type": "fixed", "value": 30},
        node_type_id={"type": "allowlist", "values": ["small", "large"], "defaultValue": "large"},
        spark_conf__spark_x={"type": "unlimited", "defaultValue": "y"},
    )
    bare = but(node_type_id=None)
    set_ = apply(definition, bare, FACTS, defaults=False)
    assert (set_.autotermination_minutes, set_.node_type_id, set_.spark_conf) == (30, None, None)
    assert len(said(definition, set_)) == 2
    filled = apply(definition, bare, FACTS, defaults=True)
    assert (filled.node_type_id, filled.spark_conf) == ("large", {"spark_x": "y"})
    assert said(definition, filled) == []
    own = apply(definition, but(autotermination_minutes=60), FACTS, defaults=True)
    assert own.autotermination_minutes == 60, "a value that is there is not changed, but violates"
    assert len(said(definition, own)) == 1


def test_defaults_fill_a_size_or_a_range() -> None:
    job = parse(next(each.definition for each in FAMILIES if each.policy_family_id == "job-cluster"))[0]
    bare = but(num_workers=None, spark_version=None)
    filled = apply(job, bare, FACTS, defaults=True)
    assert (filled.num_workers, filled.autoscale) == (None, AutoScale(min_workers=2, max_workers=10))
    sized = apply(job, msgspec.structs.replace(bare, num_workers=3), FACTS, defaults=True)
    assert (sized.num_workers, sized.autoscale, sized.spark_version) == (3, None, "17.3.x-scala2.13")
    part = apply(job, msgspec.structs.replace(bare, autoscale=AutoScale(max_workers=5)), FACTS, defaults=True)
    assert (part.num_workers, part.autoscale) == (None, AutoScale(min_workers=2, max_workers=5))
    both = policy(
        num_workers={"type": "unlimited", "defaultValue": 4}, **{"autoscale.max_workers": {"type": "fixed", "value": 6}}
    )
    ranged = apply(both, bare, FACTS, defaults=True)
    assert (ranged.num_workers, ranged.autoscale) == (None, AutoScale(max_workers=6))


def test_the_engine_null_is_none() -> None:
    engine = policy(runtime_engine={"type": "fixed", "value": "STANDARD"})
    found = apply(engine, but(runtime_engine=RuntimeEngine.NULL), FACTS, defaults=False)
    assert found.runtime_engine is RuntimeEngine.STANDARD
    assert said(policy(runtime_engine={"type": "forbidden"}), but(runtime_engine=RuntimeEngine.NULL)) == []


@pytest.mark.parametrize(
    ("path", "rule", "told"),
    [
        ("node_type_id", {"type": "allowlist", "values": ["a", "b"], "defaultValue": "c"}, "the value must be one of a, b"),
        ("node_type_id", {"type": "blocklist", "values": ["a"], "defaultValue": "a"}, "the value must not be one of a"),
        ("cluster_name", {"type": "regex", "pattern": "x.*", "defaultValue": "y"}, "the value must match the pattern x.*"),
        ("autotermination_minutes", {"type": "range", "minValue": 10, "defaultValue": 5}, "the value must be at least 10"),
        ("num_workers", {"type": "range", "maxValue": 10, "defaultValue": "50"}, "the value must be at most 10"),
    ],
)
def test_a_default_that_its_own_rule_forbids_is_a_problem(path: str, rule: dict[str, Any], told: str) -> None:
    (problem,) = bad_defaults(written({path: rule}))
    assert str(problem) == f"{path}: defaultValue is {rule['defaultValue']}, and {told}"
    good = {key: value for key, value in rule.items() if key != "defaultValue"}
    assert bad_defaults(written({path: good})) == ()


def test_what_auto_means_is_not_judged_when_a_policy_is_saved() -> None:
    versions = {"type": "allowlist", "values": ["17.3.x-scala2.13"], "defaultValue": "auto:latest-lts"}
    assert bad_defaults(policy(spark_version=versions)) == ()
    assert all(bad_defaults(parse(family.definition)[0]) == () for family in FAMILIES)


def test_the_server_s_own_defaults(golden: Golden) -> None:
    """A value that nobody asked for does not satisfy a rule that needs one, and is checked where none is needed."""
    required = policy(autotermination_minutes={"type": "range", "maxValue": 200})
    optional = policy(autotermination_minutes={"type": "range", "maxValue": 60, "isOptional": True})
    effective = but(autotermination_minutes=120, driver_node_type_id="small")
    assert [each.message for each in violations(required, given=SPEC, effective=effective, facts=FACTS)] == ["must be present"]
    golden(violations(optional, given=SPEC, effective=effective, facts=FACTS)[0].message)
    driver = policy(driver_node_type_id={"type": "allowlist", "values": ["small"]})
    assert violations(driver, given=SPEC, effective=effective, facts=FACTS) == ()
    forbidden = policy(driver_node_type_id={"type": "forbidden"})
    assert violations(forbidden, given=SPEC, effective=effective, facts=FACTS) == ()
    assert said(forbidden, but(driver_node_type_id="large"))


def test_lists() -> None:
    first, other = (InitScriptInfo(volumes=VolumesStorageInfo(destination=f"/Volumes/a/b/c/{name}.sh")) for name in ("1", "2"))
    definition = written(
        {
            "init_scripts.0.volumes.destination": {"type": "fixed", "value": "/Volumes/a/b/c/1.sh"},
            "init_scripts.*.volumes.destination": {"type": "forbidden"},
        }
    )
    set_ = apply(definition, SPEC, FACTS, defaults=False)
    assert set_.init_scripts == [first]
    assert said(definition, set_) == []
    assert len(said(definition, but(init_scripts=[first, other]))) == 1
    assert len(said(definition, but(init_scripts=[other]))) == 1
    assert enforce(definition, but(init_scripts=[other, other]), FACTS).spec.init_scripts == [first]
    every = written({"init_scripts.*.volumes.destination": {"type": "regex", "pattern": "/Volumes/.*"}})
    assert said(every, SPEC) == []
    assert said(every, but(init_scripts=[InitScriptInfo()]))[0].endswith("must be present")


def test_versions_that_are_resolved() -> None:
    definition = policy(spark_version={"type": "allowlist", "values": ["auto:latest-lts"], "defaultValue": "auto:latest-lts"})
    assert apply(definition, but(spark_version=None), FACTS, defaults=True).spark_version == "17.3.x-scala2.13"
    assert apply(definition, but(spark_version="auto:latest"), FACTS, defaults=False).spark_version == "18.2.x-scala2.13"
    assert said(definition, SPEC) == []
    assert "17.3.x-scala2.13 (is" in said(definition, but(spark_version="18.2.x-scala2.13"))[0]


def test_computed_attributes() -> None:
    definition = policy(cluster_type={"type": "fixed", "value": "job"}, dbus_per_hour={"type": "range", "maxValue": 4})
    assert said(definition, SPEC, Facts(cluster_type="job", node_types=at(4 / 3))) == []
    failed = said(definition, SPEC, Facts(node_types=at(1.5)))
    assert [text.split(",")[0].split()[-1] for text in failed] == ["cluster_type", "dbus_per_hour"]
    logs = written(
        {
            "cluster_log_conf.type": {"type": "fixed", "value": "DBFS"},
            "cluster_log_conf.path": {"type": "fixed", "value": "dbfs:/logs"},
        }
    )
    set_ = apply(logs, SPEC, FACTS, defaults=False)
    assert set_.cluster_log_conf is not None
    assert set_.cluster_log_conf.dbfs is not None
    assert set_.cluster_log_conf.dbfs.destination == "dbfs:/logs"
    assert said(logs, set_) == []
    assert len(said(logs, SPEC)) == 1
    none = written({"cluster_log_conf.type": {"type": "fixed", "value": "NONE"}})
    assert said(none, SPEC) == []
    assert said(none, set_)
    assert enforce(none, set_, FACTS).spec.cluster_log_conf is None


def test_a_pattern_that_takes_for_ever_is_a_violation_after_a_moment() -> None:
    definition = policy(**{f"custom_tags__t{number}": {"type": "regex", "pattern": "(.*a){20}b"} for number in range(50)})
    spec = but(custom_tags={f"t{number}": "a" * 4_000 + "bc" for number in range(50)})
    began = time.process_time()
    found = said(definition, spec)
    assert time.process_time() - began < 5, "of one evaluation, not of each pattern"
    assert len(found) == 50
    assert "takes too long" in found[-1]


@pytest.mark.parametrize(
    "pattern",
    [
        "(?:(?:(?:a?){100}){100}){100}a",
        "(?:a?){4000000}",
        "(?:(?:a?){999,}){999,}",
        "(?:a{,999}){,999}" + "b" * 999,
        "(?=(?=a?){999}){999}",
        "(" * 22 + "a?" + ")+" * 22,
        "(?x)(?:(?:a?) {1000}) {1000}",
        "(?-i:a)(?ix: (?:(?:a?) # a comment\n {1000}) \n{1000})",
        "(?:(?:a?)(?#x){1000}){1000}",
        f"a{{{'9' * 4000}}}",
    ],
)
def test_a_pattern_that_would_take_all_memory_is_refused_before_it_is_compiled(pattern: str, golden: Golden) -> None:
    """One of 30 characters took the server's memory, and the writer's time for seconds."""
    text = json.dumps(
        {"cluster_name": {"type": "regex", "pattern": pattern}, "custom_tags.a": {"type": "regex", "pattern": "a+"}}
    )
    _, problems = parse(text)
    assert [each.path for each in problems] == ["cluster_name"]
    golden(problems[0].message)


def test_patterns_that_people_write_are_not_heavy(golden: Golden) -> None:
    patterns = [
        "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
        r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.){1,8}[a-z]{2,63}",
        r"\d{1,3}(?:\.\d{1,3}){3}(?:/\d{1,2})?",
        "((team|cost)-[a-z]+)+(,[a-z0-9_.-]{1,255})*",
    ]
    rules = {f"custom_tags.t{number}": {"type": "regex", "pattern": each} for number, each in enumerate(patterns * 25)}
    assert parse(json.dumps(rules))[1] == ()
    heavy = {f"custom_tags.t{number}": {"type": "regex", "pattern": "(?:a?){1000}" + "b" * 90} for number in range(100)}
    golden(parse(json.dumps(heavy))[1][0].message)


def test_locks_say_why() -> None:
    definition = policy(num_workers={"type": "fixed", "value": 0, "hidden": True}, instance_pool_id={"type": "forbidden"})
    assert [(lock.path, lock.value, lock.hidden) for lock in locks(definition)] == [
        ("num_workers", "0", True), ("instance_pool_id", None, False),
    ]  # fmt: skip


def test_enforcement_names_its_changes() -> None:
    definition = policy(
        num_workers={"type": "range", "minValue": 1, "maxValue": 4},
        node_type_id={"type": "allowlist", "values": ["large", "huge"]},
        custom_tags__team={"type": "fixed", "value": "x"},
        cluster_name={"type": "regex", "pattern": "team-.*"},
    )
    done = enforce(definition, but(num_workers=9), FACTS)
    assert done.changes == (
        Change("custom_tags.team", None, "x"), Change("node_type_id", "small", "large"), Change("num_workers", "9", "4"),
    )  # fmt: skip
    assert [each.path for each in done.remaining] == ["cluster_name"], "no value is named for it"


# ── what always holds ───────────────────────────────────────────────────────────────────────────────────────────────────────────

TEXTS = st.sampled_from(["a", "b", "team-a", "small", "large"])
PATHS = st.sampled_from(
    ["cluster_name", "node_type_id", "driver_node_type_id", "custom_tags.team", "spark_conf.spark.a.b", "instance_pool_id",
     "init_scripts.0.file.destination", "init_scripts.*.file.destination"]
)  # fmt: skip
NUMBERS = st.sampled_from(["num_workers", "autotermination_minutes", "autoscale.min_workers", "autoscale.max_workers"])
OPTIONAL = st.booleans()


@st.composite
def rules(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    if draw(st.booleans()):
        low, high = sorted((draw(st.integers(0, 9)), draw(st.integers(0, 9))))
        body: dict[str, Any] = draw(
            st.sampled_from(
                [
                    {"type": "fixed", "value": low},
                    {"type": "forbidden"},
                    {"type": "range", "minValue": low, "maxValue": high, "isOptional": draw(OPTIONAL)},
                    {"type": "range", "maxValue": high, "defaultValue": low, "isOptional": draw(OPTIONAL)},
                    {"type": "blocklist", "values": [low], "defaultValue": low + 1, "isOptional": draw(OPTIONAL)},
                ]
            )
        )
        return draw(NUMBERS), body
    values = draw(st.lists(TEXTS, min_size=1, max_size=3))
    body = draw(
        st.sampled_from(
            [
                {"type": "fixed", "value": values[0]},
                {"type": "forbidden"},
                {"type": "allowlist", "values": values, "isOptional": draw(OPTIONAL)},
                {"type": "blocklist", "values": values, "defaultValue": "z", "isOptional": draw(OPTIONAL)},
                {"type": "regex", "pattern": "team-.+", "defaultValue": "team-z", "isOptional": draw(OPTIONAL)},
                {"type": "unlimited", "defaultValue": values[0], "isOptional": draw(OPTIONAL)},
            ]
        )
    )
    return draw(PATHS), body


DEFINITIONS = st.lists(rules(), max_size=8).map(lambda found: parse(json.dumps(dict(found)))[0])
SPECS = st.builds(
    ClusterSpec,
    cluster_name=st.none() | TEXTS,
    node_type_id=st.none() | TEXTS,
    driver_node_type_id=st.none() | TEXTS,
    instance_pool_id=st.none() | TEXTS,
    spark_version=st.just("17.3.x-scala2.13"),
    num_workers=st.none() | st.integers(0, 12),
    autoscale=st.none() | st.builds(AutoScale, min_workers=st.integers(0, 12), max_workers=st.integers(0, 12)),
    autotermination_minutes=st.none() | st.integers(0, 12),
    custom_tags=st.none() | st.dictionaries(st.sampled_from(["team", "other"]), TEXTS),
    spark_conf=st.none() | st.dictionaries(st.sampled_from(["spark.a.b", "spark.a"]), TEXTS),
    init_scripts=st.none()
    | st.lists(TEXTS, max_size=3).map(
        lambda names: [msgspec.convert({"file": {"destination": name}}, InitScriptInfo) for name in names]
    ),
)


@settings(max_examples=150)
@given(DEFINITIONS, SPECS)
def test_enforcement_ends_every_violation_that_it_does_not_name_and_is_idempotent(
    definition: Definition, spec: ClusterSpec
) -> None:
    once = enforce(definition, spec, FACTS)
    assert violations(definition, given=once.spec, effective=once.spec, facts=FACTS) == once.remaining
    twice = enforce(definition, once.spec, FACTS)
    assert (twice.spec, twice.changes) == (once.spec, ())
    if not violations(definition, given=spec, effective=spec, facts=FACTS):
        assert once.changes == (), "what complies stays as it is"


@settings(max_examples=100)
@given(DEFINITIONS, SPECS)
def test_every_rule_is_judged_by_itself_and_in_the_order_of_the_text(definition: Definition, spec: ClusterSpec) -> None:
    """Rules are grouped when a definition is read: what all of them find together is what each finds, one after the other."""
    together = violations(definition, given=spec, effective=spec, facts=FACTS)
    elements = {rule.on.path for rule in definition.rules if "*" in rule.on.path or "0" in rule.on.path}
    alone = [
        each
        for rule in definition.rules
        if rule.on.path not in elements  # a rule for every element depends on those for single ones
        for each in violations(Definition([rule]), given=spec, effective=spec, facts=FACTS)
    ]
    assert [each for each in together if not each.path.startswith("init_scripts")] == alone


@settings(max_examples=150)
@given(DEFINITIONS, SPECS, st.booleans())
def test_fixed_values_win_or_the_specification_is_refused(definition: Definition, spec: ClusterSpec, defaults: bool) -> None:
    done = apply(definition, spec, FACTS, defaults=defaults)
    assert apply(definition, done, FACTS, defaults=defaults) == done
    if violations(definition, given=done, effective=done, facts=FACTS):
        return
    tree = msgspec.to_builtins(done)
    for rule in definition.rules:
        for spot in spots(tree, rule.on.keys):
            if rule.type == "fixed" and "*" not in rule.on.path:
                assert spot.value == rule.values[0]
            if rule.type == "forbidden" and rule.on.path in ("cluster_name", "custom_tags.team", "autotermination_minutes"):
                assert spot.value is None


@given(SPECS, PATHS, TEXTS)
def test_what_is_put_is_found_and_what_is_removed_is_gone(spec: ClusterSpec, path: str, value: str) -> None:
    tree = msgspec.to_builtins(spec)
    keys = attribute(path.replace("*", "0")).keys
    put(tree, keys, value)
    assert value_at(tree, keys) == value
    count = len(tree.get("init_scripts", []))
    put(tree, keys, None)
    if keys[0] == "init_scripts":
        assert len(tree.get("init_scripts", [])) == count - 1
    else:
        assert value_at(tree, keys) is None
