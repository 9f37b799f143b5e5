"""Server-side apply and strategic merge, by the schemas: who set which field, conflicts, and what is taken away again."""

from __future__ import annotations

import copy
from typing import Any

from tests.kubernetes import schemas
from tests.kubernetes.schemas import Document

Path = tuple[Any, ...]  # names of fields; an element of a list that is told apart by keys is a tuple of (key, value)
Owned = dict[str, set[Path]]  # manager -> the fields that it has applied
_IDENTITY = {("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace")}


class ConflictError(Exception):
    """Another manager has set the field to something else."""


def leaves(value: Any, schema: Document, path: Path = ()) -> dict[Path, Any]:
    """The fields that a document sets, down to what is one value."""
    keys = schemas.keys_of(schema)
    found: dict[Path, Any] = {}
    if isinstance(value, dict) and value and not schemas.is_atomic(schema):
        for name, each in value.items():
            found |= leaves(each, schemas.child(schema, name), (*path, name))
        return found
    if isinstance(value, list) and keys:
        for each in value:
            found |= leaves(each, schemas.items(schema), (*path, _key(each, keys)))
        return found
    return {path: value}


def _key(element: Document, keys: tuple[str, ...]) -> tuple[tuple[str, Any], ...]:
    return tuple((key, element[key]) for key in keys if key in element)


def apply(live: Document | None, sent: Document, schema: Document, owned: Owned, manager: str, *, force: bool) -> Document:
    """The object as it is afterwards. Changes `owned`. Raises ConflictError."""
    given = leaves(sent, schema)
    made = copy.deepcopy(live) if live is not None else {}
    for path, value in given.items():
        others = [name for name, paths in owned.items() if name != manager and path in paths]
        if others and get(made, path) != value:
            if not force:
                raise ConflictError(f'conflict with "{others[0]}": .{".".join(map(str, path))}')
            for name in others:
                owned[name].discard(path)
    mine, kept = owned.get(manager, set()), set().union(*(paths for name, paths in owned.items() if name != manager))
    for path in sorted(mine - given.keys() - kept, key=len, reverse=True):
        _remove(made, path)
    for path, value in given.items():
        _set(made, path, value)
    owned[manager] = set(given.keys() - _IDENTITY)
    return made


def merge(live: Document, patch: Document, schema: Document) -> Document:
    """A strategic merge patch: maps are merged, elements of lists are told apart by their keys, null removes."""
    made = copy.deepcopy(live)
    for path, value in leaves(patch, schema).items():
        if value is None:
            _remove(made, path)
        else:
            _set(made, path, value)
    return made


def get(of: Any, path: Path) -> Any:
    for step in path:
        if isinstance(of, list) and isinstance(step, tuple):
            of = next((each for each in of if _matches(each, step)), None)
        else:
            of = of.get(step) if isinstance(of, dict) else None
        if of is None:
            return None
    return of


def _matches(element: Any, step: tuple[tuple[str, Any], ...]) -> bool:
    return isinstance(element, dict) and all(element.get(key) == value for key, value in step)


def _set(of: Any, path: Path, value: Any) -> None:
    for index, step in enumerate(path[:-1]):
        if isinstance(step, tuple):
            found = next((each for each in of if _matches(each, step)), None)
            if found is None:
                found = dict(step)
                of.append(found)
            of = found
        else:
            of = of.setdefault(step, [] if isinstance(path[index + 1], tuple) else {})
    last = path[-1]
    if isinstance(last, tuple):
        index = next((number for number, each in enumerate(of) if _matches(each, last)), len(of))
        of[index : index + 1] = [copy.deepcopy(value) or dict(last)]
    else:
        of[last] = copy.deepcopy(value)


def _remove(of: Any, path: Path) -> None:
    holder = get(of, path[:-1])
    if isinstance(holder, dict):
        holder.pop(path[-1], None)
        if not holder and isinstance(path[-2] if len(path) > 1 else "", tuple):
            get(of, path[:-2]).remove(holder)
    elif isinstance(holder, list):
        holder[:] = [each for each in holder if not _matches(each, path[-1])]
