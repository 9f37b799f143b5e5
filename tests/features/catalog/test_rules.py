"""Descriptions of databases: what is said of them, and that a change leaves the rest."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brickyard.domain.errors import ApiError, InvalidParameterValue
from brickyard.features.catalog import rules
from brickyard.features.catalog.model import SchemaChanges
from brickyard.runtime.node.spark import conf

_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
_KEYS = _TEXT.filter(lambda key: key not in ("", "owner", "location", "comment") and not key.startswith("brickyard."))
_PROPERTIES = st.dictionaries(_KEYS, _TEXT, max_size=3)
_CHANGES = st.builds(
    SchemaChanges, st.none() | _TEXT, st.none() | _PROPERTIES, st.none() | st.just("ada@example.com") | st.just("group")
)


def test_managed_tables_are_where_nodes_make_them() -> None:
    assert rules.WAREHOUSE == conf.WAREHOUSE


@given(st.lists(_CHANGES, max_size=4))
def test_each_change_is_kept_until_the_next(changes: list[SchemaChanges]) -> None:
    text, comment, owner = rules.new_description("s"), "", ""
    properties: dict[str, str] = {}
    for number, each in enumerate(changes):
        text = rules.changed(text, each, owner_id=str(number) if each.owner else None)
        comment = comment if each.comment is None else each.comment
        properties = properties if each.properties is None else dict(each.properties)
        owner = str(number) if each.owner else owner
    found = rules.record_of("v", text, 5)
    assert (found.comment, found.properties, found.owner, found.modified_ms) == (comment, properties, owner, 5)
    assert found.location == "dbfs:/user/hive/warehouse/s.db"


def test_what_is_not_known_of_a_description_stays() -> None:
    tree = json.loads(rules.new_description("s"))
    tree["later"] = {"a": [1]}
    tree["database"][1] |= {"collation": ["some", "UTF8_LCASE"], "properties": ["map", {"owner": "spark", "brickyard.x": "1"}]}
    text = rules.changed(msgspec.json.encode(tree), SchemaChanges("c", {"k": "v"}), owner_id=None)
    tree["database"][1] |= {"description": "c", "properties": ["map", {"k": "v", "owner": "spark", "brickyard.x": "1"}]}
    assert json.loads(text) == tree
    assert rules.record_of("v", text, 0).properties == {"k": "v"}


@given(st.binary(max_size=60) | st.recursive(st.none() | st.text() | st.integers(), st.lists).map(msgspec.json.encode))
def test_any_text_is_read_or_refused(text: bytes) -> None:
    assert rules.record_of("v", text, 1).version == "v"
    with pytest.raises(ApiError):
        rules.changed(text, SchemaChanges("c"), owner_id=None)


@given(st.text(max_size=300))
def test_a_name_is_one_that_spark_and_the_metastore_take_or_refused(name: str) -> None:
    try:
        found = rules.schema_name(name)
    except InvalidParameterValue:
        return
    assert found == name.lower() and not set(found) & set("./ \0") and found
    assert f"{rules.WAREHOUSE}/" in rules.record_of("", rules.new_description(found), 0).location
