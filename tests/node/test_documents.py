"""What a node reads is what servers and agents write: the documents of the node host against the structs that become them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from types import UnionType
from typing import Any, NotRequired, get_args, get_origin, get_type_hints

import msgspec
import pytest

from brickyard.domain import nodeops
from brickyard.domain.node import Assignment
from brickyard.domain.runtimes import RuntimeManifest
from brickyard.runtime.node import documents

PAIRS = [
    (documents.AssignmentDocument, Assignment),
    (documents.ManifestDocument, RuntimeManifest),
    (documents.NewContext, nodeops.NewContext),
    (documents.OfContext, nodeops.OfContext),
    (documents.OfCommand, nodeops.OfCommand),
    (documents.OfCells, nodeops.CellsOfCommand),
    (documents.NewCommand, nodeops.NewCommand),
]
ONLY_HERE = {"login_classes"}  # runtime/training.py adds it


def as_json(kind: Any) -> Any:
    """The type that JSON makes of one."""
    origin = get_origin(kind)
    if origin in (tuple, Sequence) or kind is Sequence:
        inner = as_json(get_args(kind)[0])
        return (Sequence, object if isinstance(inner, type) and issubclass(inner, msgspec.Struct) else inner)
    if origin in (dict, Mapping):
        return (Mapping, *map(as_json, get_args(kind)))
    if origin is UnionType:
        return frozenset(map(as_json, get_args(kind)))
    return str if isinstance(kind, type) and issubclass(kind, Enum) else kind


@pytest.mark.parametrize(("document", "struct"), PAIRS, ids=lambda each: each.__name__)
def test_a_document_has_fields_of_the_struct_that_becomes_it(document: Any, struct: type[msgspec.Struct]) -> None:
    written = get_type_hints(struct)
    required = {each.name for each in msgspec.structs.fields(struct) if each.required}
    for name, kind in get_type_hints(document, include_extras=True).items():
        optional = get_origin(kind) is NotRequired
        if name not in ONLY_HERE:
            assert as_json(get_args(kind)[0] if optional else kind) == as_json(written[name]), name
            assert optional or name in required, f"{name} may be left out"
