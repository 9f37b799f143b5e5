"""`update_mask`: which fields of a specification an update replaces (AIP-161, which the SDK's docstring refers to). Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.spec import ClusterSpec

NOT_UPDATED = frozenset({"apply_policy_default_values"})  # in ClusterSpec but not in UpdateClusterResource


def apply_mask(old: ClusterSpec, new: ClusterSpec, mask: str) -> ClusterSpec:
    """`old` with every field in the mask taken from `new`; fields that are absent in `new` are cleared.

    Paths are comma-separated, with dots for sub-fields; `*` is every field. Raises InvalidParameterValue.
    """
    paths = [path.strip() for path in mask.split(",") if path.strip()]
    if not paths:
        raise InvalidParameterValue("Missing required field: update_mask. Name the fields to change, or * for all of them.")
    if "*" in paths:
        return new
    result: ClusterSpec = old
    for path in paths:
        if path.partition(".")[0] in NOT_UPDATED:
            raise InvalidParameterValue(f"update_mask has {path!r}, which can only be given to create and edit.")
        result = _replace(result, new, path.split("."), path)
    return _one_size(result, {path.partition(".")[0] for path in paths})


def _one_size(result: ClusterSpec, named: set[str]) -> ClusterSpec:
    """A number of workers and a range exclude each other: the one in the mask replaces the other."""
    if result.num_workers is None or result.autoscale is None or named >= {"num_workers", "autoscale"}:
        return result
    if "autoscale" in named:
        return msgspec.structs.replace(result, num_workers=None)
    return msgspec.structs.replace(result, autoscale=None) if "num_workers" in named else result


def _replace(old: Any, new: Any, names: list[str], path: str) -> Any:
    name, *rest = names
    if name not in old.__struct_fields__:
        raise InvalidParameterValue(f"update_mask has an unknown field {path!r}. Lists and maps are replaced as a whole.")
    value = None if new is None else getattr(new, name)
    if rest:
        present = getattr(old, name)
        if present is None:
            if value is None:
                return old
            present = type(value)()
        if not isinstance(present, msgspec.Struct):
            raise InvalidParameterValue(f"update_mask has {path!r}, but {name} has no fields: it is replaced as a whole.")
        value = _replace(present, value, rest, path)
    return msgspec.structs.replace(old, **{name: value})
