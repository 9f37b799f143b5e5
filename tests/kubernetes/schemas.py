"""The official OpenAPI schemas of Kubernetes, from the package kubernetes-validate, in their strict form: no unknown field."""

from __future__ import annotations

import functools
import json
from importlib import resources
from typing import Any

import jsonschema
from referencing import Registry, Resource

VERSION = "1.37.0"
_ROOT = f"kubernetes-json-schema/v{VERSION}-local-strict"
Document = dict[str, Any]


@functools.cache
def _read(name: str) -> Document:
    path = resources.files("kubernetes_validate").joinpath(f"{_ROOT}/{name}.json")
    return json.loads(path.read_text())  # type: ignore[no-any-return] # a schema is an object


@functools.cache
def _registry() -> Registry[Any]:
    empty: Registry[Any] = Registry()
    return Resource.from_contents(_read("_definitions")) @ empty


def of(kind: str, version: str) -> Document:
    """The schema of a kind. Raises FileNotFoundError if there is none."""
    group, _, number = version.rpartition("/")
    short = group.partition(".")[0]
    return _read("-".join(part for part in (kind.lower(), short, number) if part))


@functools.cache
def _validator(kind: str, version: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(of(kind, version), registry=_registry())


def mistakes(document: Document) -> list[str]:
    """What is wrong with an object, by field."""
    kind, version = str(document.get("kind")), str(document.get("apiVersion"))
    validator = _validator(kind, "meta/v1" if kind == "DeleteOptions" else version)
    return [f"{'.'.join(map(str, error.path))}: {error.message}" for error in validator.iter_errors(document)]


def resolved(schema: Document) -> Document:
    """The schema that a reference leads to, with what stands beside the reference."""
    while "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        schema = {**_read("_definitions")["$defs"][name], **{key: value for key, value in schema.items() if key != "$ref"}}
    return schema


def child(schema: Document, key: str) -> Document:
    """The schema of a field."""
    found = resolved(schema)
    given = found.get("properties", {}).get(key)
    if given is None:
        more = found.get("additionalProperties")
        given = more if isinstance(more, dict) else {}
    return resolved(given)


def items(schema: Document) -> Document:
    return resolved(resolved(schema).get("items", {}))


def keys_of(schema: Document) -> tuple[str, ...]:
    """The keys by which a list's elements are told apart; empty if the list is one value."""
    found = resolved(schema)
    return tuple(found.get("x-kubernetes-list-map-keys", ())) if found.get("x-kubernetes-list-type") == "map" else ()


def is_atomic(schema: Document) -> bool:
    """Whether a map is one value."""
    return resolved(schema).get("x-kubernetes-map-type") == "atomic"
