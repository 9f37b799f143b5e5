"""What a policy makes of a specification: values that it sets, rules that are violated, the nearest specification without any.

A request goes through `apply` (fixed values, and defaults if they are asked for), then through `plan.spec.check`, then
through `violations`. The messages are Databricks' own where they are known.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from brickyard.domain.decoding import converter
from brickyard.domain.spec import ClusterSpec, RuntimeEngine
from brickyard.plan.policies.attributes import MAPS, Key, Spot, put, spots, value_at
from brickyard.plan.policies.language import Definition, Rule, RuleType, preset, text
from brickyard.plan.policies.limits import Facts, Matching, meant, must_be, nearest, short
from brickyard.plan.policies.logconf import apply_log_conf, enforce_log_conf, log_conf
from brickyard.plan.spend import price_per_hour

_to_spec = converter(ClusterSpec)


_FIXED, _FORBIDDEN = RuleType.FIXED, RuleType.FORBIDDEN  # members of an enum take a while to look up
_number = operator.itemgetter(0)
_ROUNDS = 5  # a change may make another attribute count as given, or a list shorter
# Attributes that the server derives from others when a request leaves them out: a rule that needs them is satisfied by that.
_DERIVED = frozenset({"driver_node_type_id", "node_type_id", "driver_instance_pool_id", "single_user_name"})


class Violation(NamedTuple):
    """`path` is the attribute, with the positions of list elements."""

    path: str
    message: str

    def __str__(self) -> str:
        top, _, key = self.path.partition(".")
        if self.message == _ABSENT and top in MAPS:
            return f"Validation failed for {top}, {key} {self.message}"
        return f"Validation failed for {self.path}, {self.message}"


class Lock(NamedTuple):
    """An attribute that a policy decides. `value` is None if it must not be set."""

    path: str
    value: str | None
    reason: str
    hidden: bool


class Change(NamedTuple):
    """A value that enforcement changes. None: absent."""

    field: str
    previous_value: str | None
    new_value: str | None


class Enforced(NamedTuple):
    """`remaining`: violations that no change of one value can mend."""

    spec: ClusterSpec
    changes: tuple[Change, ...]
    remaining: tuple[Violation, ...]


_ABSENT = "must be present"


def resolved(spec: ClusterSpec, facts: Facts) -> ClusterSpec:
    """The specification with auto:latest and the like as the version that it means now."""
    version = facts.versions.get(spec.spark_version or "")
    return msgspec.structs.replace(spec, spark_version=version) if version else spec


def apply(definition: Definition, spec: ClusterSpec, facts: Facts, *, defaults: bool) -> ClusterSpec:
    """The specification with the policy's fixed values where it has none, and with its default values if those are asked for."""
    tree = _tree(spec)
    sized = _sized(definition, tree) if defaults else ""
    for place in definition.places:
        here = value_at(tree, place.keys)
        for _, key, rule in place.presets:
            value = preset(rule, defaults=defaults and (place.keys or (key,))[0] != sized)
            if value is None or (here is not None and here.get(key) is not None):
                continue
            if here is None:
                put(tree, place.keys, here := {})
            here[key] = meant(rule, value, facts)
    for _, rule in definition.others:
        if rule.on.virtual or (value := preset(rule, defaults=defaults)) is None:
            continue
        for spot in _spots(definition, rule, tree):
            if spot.value is None:
                put(tree, spot.keys, meant(rule, value, facts))
    apply_log_conf(definition, tree, defaults=defaults)
    return resolved(_spec(tree), facts)


def violations(definition: Definition, *, given: ClusterSpec, effective: ClusterSpec, facts: Facts) -> tuple[Violation, ...]:
    """Every rule that the specification violates. `given` says what was asked for: what is forbidden must not be in it, and what
    is required must. `effective` is what the cluster will have; for a cluster that exists both are the same."""
    tree = _tree(effective)
    asked = tree if given is effective else _tree(given)
    stated = _tree(_stated(given)) if definition.forbids else asked
    matching = Matching()
    found: list[tuple[int, Violation]] = []
    for place in definition.places:
        here, there = value_at(tree, place.keys), value_at(asked, place.keys)
        for number, key, rule in place.rules:
            value = None if here is None else here.get(key)
            if value is not None and not rule.optional and (there is None or there.get(key) is None):
                value = _unasked(rule, value)
            if (wrong := _check(rule, value, rule.on.keys, facts, matching)) is not None:
                found.append((number, wrong))
    for number, rule in definition.others:
        if rule.on.virtual:
            found.extend((number, each) for each in _virtual(rule, effective, facts, matching))
            continue
        if rule.type is _FORBIDDEN:
            found.extend((number, each) for each in _forbidden(_spots(definition, rule, stated)))
            continue
        for keys, value in _spots(definition, rule, tree):
            counts = value if rule.optional or value_at(asked, keys) is not None else _unasked(rule, value)
            if (wrong := _check(rule, counts, keys, facts, matching)) is not None:
                found.append((number, wrong))
    return tuple(each for _, each in sorted(found, key=_number))


def _unasked(rule: Rule, value: Any) -> Any:
    """What counts of a value that nobody asked for: the server filled in its own default. That is no violation if the attribute
    is optional, and nothing if it is required, unless it follows from others that were given."""
    return value if rule.on.path in _DERIVED else None


def locks(definition: Definition) -> tuple[Lock, ...]:
    """The attributes that the policy decides, with the reason for people."""
    return tuple(
        Lock(rule.on.path, None, "The policy does not allow it to be set.", rule.hidden)
        if rule.type is RuleType.FORBIDDEN
        else Lock(rule.on.path, text(rule.values[0]), f"The policy sets it to {text(rule.values[0])}.", rule.hidden)
        for rule in definition.rules
        if rule.type in (RuleType.FIXED, RuleType.FORBIDDEN)
    )


def enforce(definition: Definition, spec: ClusterSpec, facts: Facts) -> Enforced:
    """The nearest specification that the policy allows: what is forbidden is removed, what exceeds a bound becomes the bound, and
    what is not allowed becomes the default, or the first value that is."""
    after, matching = spec, Matching()
    for _ in range(_ROUNDS):
        before, after = after, _enforce_once(definition, after, facts, matching)
        if after == before:
            break
    left = violations(definition, given=after, effective=after, facts=facts)
    return Enforced(after, changes(spec, after), left)


def _enforce_once(definition: Definition, spec: ClusterSpec, facts: Facts, matching: Matching) -> ClusterSpec:
    tree, stated = _tree(spec), _tree(_stated(spec))
    for rule in definition.by_position:
        if rule.on.virtual:
            continue
        if rule.type is RuleType.FORBIDDEN:
            # From the last element of a list to the first: removing one moves those behind it.
            for spot in reversed(_spots(definition, rule, stated)):
                if spot.value is not None:
                    put(tree, spot.keys, None)
            continue
        for keys, now in _spots(definition, rule, tree):
            if _check(rule, now, keys, facts, matching) and (value := nearest(rule, now, facts, matching)) is not None:
                put(tree, keys, value)
    enforce_log_conf(definition, tree)
    return _spec(tree)


def changes(before: ClusterSpec, after: ClusterSpec) -> tuple[Change, ...]:
    """The values that differ, by path."""
    old, new = dict(_leaves(_tree(before), ())), dict(_leaves(_tree(after), ()))
    return tuple(
        Change(path, None if path not in old else text(old[path]), None if path not in new else text(new[path]))
        for path in sorted(old.keys() | new.keys())
        if old.get(path) != new.get(path)
    )


def _sized(definition: Definition, tree: dict[str, Any]) -> str:
    """The attribute that defaults do not fill, as a cluster has a size or a range: the other one is given, or fixed."""
    fixed = {rule.on.keys[0] for rule in definition.rules if rule.type is _FIXED and rule.on.keys}
    if tree.get("num_workers") is not None or "num_workers" in fixed:
        return "autoscale"
    return "num_workers" if tree.get("autoscale") or "autoscale" in fixed else ""


def _tree(spec: ClusterSpec) -> dict[str, Any]:
    tree: dict[str, Any] = msgspec.to_builtins(spec)
    if spec.runtime_engine is RuntimeEngine.NULL:  # the SDKs' name for none
        del tree["runtime_engine"]
    return tree


def _spec(tree: dict[str, Any]) -> ClusterSpec:
    return _to_spec(tree)


def _stated(spec: ClusterSpec) -> ClusterSpec:
    """The specification without what the server derives from the rest."""
    same_driver = spec.driver_node_type_id == spec.node_type_id or spec.driver_instance_pool_id is not None
    return msgspec.structs.replace(
        spec,
        driver_node_type_id=None if same_driver else spec.driver_node_type_id,
        node_type_id=None if spec.instance_pool_id else spec.node_type_id,
        driver_instance_pool_id=None if spec.driver_instance_pool_id == spec.instance_pool_id else spec.driver_instance_pool_id,
        enable_elastic_disk=None if spec.enable_elastic_disk else spec.enable_elastic_disk,
    )


def _leaves(tree: Any, keys: tuple[Key, ...]) -> Iterator[tuple[str, Any]]:
    if isinstance(tree, dict | list):
        for key, inner in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from _leaves(inner, (*keys, key))
    else:
        yield ".".join(str(key) for key in keys), tree


def _forbidden(places: Iterable[Spot]) -> Iterator[Violation]:
    for spot in places:
        if spot.value not in (None, {}, []):
            yield _violation(spot.keys, "the value must not be set" + (_is(spot.value) if _scalar(spot.value) else ""))


def _spots(definition: Definition, rule: Rule, tree: dict[str, Any]) -> Sequence[Spot]:
    """The places that a rule is about: those of its attribute that no other rule names."""
    keys = rule.on.keys
    return spots(tree, keys, but=definition.positions(rule)) if rule.on.repeated else (Spot(keys, value_at(tree, keys)),)


def _check(rule: Rule, value: Any, keys: tuple[Key, ...], facts: Facts, matching: Matching) -> Violation | None:
    if value is None:
        return None if rule.optional else _violation(keys, _ABSENT)
    must = must_be(rule, value, facts, matching)
    return None if must is None else _violation(keys, must + _is(value))


def _violation(keys: tuple[Key, ...], message: str) -> Violation:
    return Violation(".".join(str(key) for key in keys), message)


def _is(value: Any) -> str:
    return f' (is "{short(text(value))}")'


def _scalar(value: Any) -> bool:
    return isinstance(value, str | bool | int | float)


def _virtual(rule: Rule, spec: ClusterSpec, facts: Facts, matching: Matching) -> Iterable[Violation]:
    value: Any
    if rule.on.path == "cluster_type":
        value = facts.cluster_type
    elif rule.on.path == "dbus_per_hour":
        if (price := price_per_hour(spec, facts.node_types)) is None:  # a type that no new cluster could have
            return ()
        value = price.most
    else:
        value = log_conf(_tree(spec))[rule.on.path]
        if rule.type is RuleType.FORBIDDEN:
            return _forbidden([Spot((rule.on.path,), None if value == "NONE" else value)])
        if value is None and rule.on.path != "cluster_log_conf.type":
            return ()
    found = _check(rule, value, (rule.on.path,), facts, matching)
    return () if found is None else (found,)
