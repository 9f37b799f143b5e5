"""Parameters of the Statement Execution API as Spark Connect's literals."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brickyard.features.statements.model import Parameter, StatementFailed
from brickyard.gateway.sql.literals import literals


def bound(kind: str | None, value: str | None) -> object:
    literal = literals([Parameter(name="p", type=kind, value=value)])["p"].literal
    (field, found), *_ = literal.ListFields()
    return (field.name, (found.value, found.precision, found.scale)) if field.name == "decimal" else (field.name, found)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (None, "a", ("string", "a")),
        ("INT", "-7", ("integer", -7)),
        ("bigint", "9223372036854775807", ("long", 2**63 - 1)),
        ("BOOLEAN", "True", ("boolean", True)),
        ("DOUBLE", "1.5", ("double", 1.5)),
        ("DATE", "1970-01-03", ("date", 2)),
        ("TIMESTAMP", "1970-01-01T00:00:01Z", ("timestamp", 1_000_000)),
        ("TIMESTAMP", "1970-01-01 01:00:00+01:00", ("timestamp", 0)),
        ("TIMESTAMP_NTZ", "1970-01-01 00:00:01", ("timestamp_ntz", 1_000_000)),
        ("DECIMAL(5, 2)", "1.005", ("decimal", ("1.01", 5, 2))),
        ("BINARY", "YWJj", ("binary", b"abc")),
    ],
)
def test_types(kind: str | None, value: str, expected: object) -> None:
    assert bound(kind, value) == expected


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("INT", "x"),
        ("INT", "2147483648"),
        ("TINYINT", "200"),
        ("DATE", "soon"),
        ("DECIMAL(3,1)", "100"),
        ("MAP<INT,INT>", "1"),
        ("BOOLEAN", "2"),
    ],
)
def test_what_cannot_be_bound_is_refused_by_name(kind: str, value: str) -> None:
    with pytest.raises(StatementFailed, match="Parameter p"):
        bound(kind, value)


@given(st.integers(-(2**63), 2**63 - 1))
def test_any_whole_number(value: int) -> None:
    assert literals([Parameter(name="p", type="BIGINT", value=str(value))])["p"].literal.long == value


def test_null_of_any_type() -> None:
    for kind in (None, "INT", "VOID"):
        assert literals([Parameter(name="p", type=kind)])["p"].literal.HasField("null")
