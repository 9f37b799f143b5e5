"""Lists of SCIM resources: filter, order, page and selection of attributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from brickyard.domain.errors import InvalidParameterValue
from brickyard.features.identity.scim.filters import Filter, find, matches, names, parse_filter, required
from brickyard.features.identity.scim.resources import public, selected, wants

Row = TypeVar("Row")
Resource = dict[str, Any]

PAGE, MOST = 100, 1_000  # resources in an answer: unless the client says, and at most
_SCHEMA = "urn:ietf:params:scim:api:messages:2.0:ListResponse"


class Shown(NamedTuple):
    """Which attributes an answer has: only these, or all but those. `everything`: also those that only administrators see."""

    attributes: str = ""
    excluded: str = ""
    everything: bool = True


class Asked(NamedTuple):
    """What a list is asked for."""

    filter: str = ""
    start_index: int = 1  # of the first resource; they are numbered from 1
    limit: int = PAGE
    sort_by: str = ""
    descending: bool = False
    shown: Shown = Shown()


class Source(Protocol[Row]):
    """Where the resources come from."""

    def total(self) -> int:
        """How many there are."""
        ...

    def page(self, offset: int, limit: int, /) -> list[Row]: ...

    def candidates(self, values: dict[str, str], /) -> list[Row]:
        """All rows that could have these values in these attributes (in lower case)."""
        ...

    def build(self, rows: Sequence[Row], relations: frozenset[str], /) -> list[Resource]:
        """Resources, with those of the attributes `groups` and `members` that are needed."""
        ...


def list_resources(source: Source[Row], asked: Asked) -> Resource:
    """The answer to a list. A plain page reads only its own rows. Raises ScimError and InvalidParameterValue."""
    start, count = max(asked.start_index, 1), min(max(asked.limit, 0), MOST)
    if asked.filter or asked.sort_by:
        found = _found(source, asked, parse_filter(asked.filter) if asked.filter else None)
        total, rows = len(found), found[start - 1 : start - 1 + count]
    else:
        total = source.total()
        rows = source.page(start - 1, count) if count else []
    relations = frozenset(each for each in ("groups", "members") if wants(each, asked.shown.attributes, asked.shown.excluded))
    resources = [show(each, asked.shown) for each in source.build(rows, relations)]
    return {
        "schemas": [_SCHEMA],
        "totalResults": total,
        "startIndex": start,
        "itemsPerPage": len(resources),
        "Resources": resources,
    }


def show(resource: Resource, shown: Shown) -> Resource:
    """The attributes of a resource that an answer has."""
    return selected(resource if shown.everything else public(resource), shown.attributes, shown.excluded)


def _found(source: Source[Row], asked: Asked, wanted: Filter | None) -> list[Row]:
    """The rows for which the filter holds, in order."""
    used = set(names(wanted)) if wanted is not None else set()
    order = asked.sort_by.rpartition(":")[2]
    if order.count(".") > 1 or len(order) > 100:
        raise InvalidParameterValue(f"sortBy is {asked.sort_by[:100]!r}; it must be an attribute, such as userName.")
    rows = source.candidates(dict(required(wanted)) if wanted is not None else {})
    built = source.build(rows, frozenset(used | {order.partition(".")[0].lower()}))
    pairs = [(resource if asked.shown.everything else public(resource), row) for resource, row in zip(built, rows, strict=True)]
    if wanted is not None:
        pairs = [(resource, row) for resource, row in pairs if matches(wanted, resource)]
    if order:
        pairs.sort(key=lambda pair: _key(pair[0], order), reverse=asked.descending)
    return [row for _, row in pairs]


def _key(resource: Resource, order: str) -> tuple[int, str]:
    """By text without case; resources without the attribute come last."""
    value: Any = resource
    for part in order.split("."):
        if isinstance(value, list):
            value = next((each for each in value if isinstance(each, dict) and each.get("primary")), value[0] if value else None)
        key = find(value, part) if isinstance(value, dict) else None
        value = value[key] if key is not None else None
    if isinstance(value, list):
        value = value[0].get("value") if value and isinstance(value[0], dict) else None
    return (1, "") if value is None else (0, str(value).lower())
