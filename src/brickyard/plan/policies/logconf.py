"""`cluster_log_conf` as policies see it: one type, one path and one region, whichever store it names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from brickyard.domain import places
from brickyard.domain.places import Kind, PlaceError
from brickyard.plan.logconf import as_nodes_see
from brickyard.plan.policies.attributes import Value
from brickyard.plan.policies.language import Definition, RuleType, preset

_LOG_STORES = ("s3", "volumes", "dbfs")


def log_conf(tree: dict[str, Any]) -> dict[str, str | None]:
    """Where logs are delivered, as policies see it."""
    conf = _shared(tree.get("cluster_log_conf") or {})
    store = next((each for each in _LOG_STORES if conf.get(each)), None)
    place = conf.get(store, {}) if store else {}
    return {
        "cluster_log_conf.type": store.upper() if store else "NONE",
        "cluster_log_conf.path": place.get("destination"),
        "cluster_log_conf.region": place.get("region"),
    }


def _shared(conf: dict[str, Any]) -> dict[str, Any]:
    """A `file` as what it names: a policy means places, whatever their names."""
    destination = (conf.get("file") or {}).get("destination")
    if not destination:
        return conf
    try:
        place = as_nodes_see(places.parse(destination, bare=Kind.FILE))
    except PlaceError:
        return conf  # it is refused elsewhere
    return {place.kind.value: {"destination": place.address}}


def apply_log_conf(definition: Definition, tree: dict[str, Any], *, defaults: bool) -> None:
    rules = definition.log_conf
    if rules and not tree.get("cluster_log_conf"):
        _put_log_conf(tree, {path: preset(rule, defaults=defaults) for path, rule in rules.items()})


def enforce_log_conf(definition: Definition, tree: dict[str, Any]) -> None:
    fixed = {path: rule.values[0] for path, rule in definition.log_conf.items() if rule.type is RuleType.FIXED}
    now = log_conf(tree)
    if any(now[path] != value for path, value in fixed.items()):
        _put_log_conf(tree, {**now, **fixed})


def _put_log_conf(tree: dict[str, Any], wanted: Mapping[str, Value | None]) -> None:
    store, path = wanted.get("cluster_log_conf.type"), wanted.get("cluster_log_conf.path")
    tree.pop("cluster_log_conf", None)
    if store is None or store == "NONE" or path is None:
        return  # nowhere to deliver to: a rule that requires it is then violated
    place = {"destination": path}
    if region := wanted.get("cluster_log_conf.region"):
        place["region"] = region
    tree["cluster_log_conf"] = {str(store).lower(): place}
