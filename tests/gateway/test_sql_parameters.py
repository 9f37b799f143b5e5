"""Parameters of statements: what clients send as text becomes literals of the same value."""

from __future__ import annotations

import datetime
import decimal

import pytest
from databricks.sql.thrift_api.TCLIService import ttypes
from hypothesis import given
from hypothesis import strategies as st

from brickyard.gateway.sql.parameters import BadParameter, bound

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def parameter(kind: str | None, text: str | None, *, name: str | None = None, ordinal: int | None = None) -> object:
    value = None if text is None else ttypes.TSparkParameterValue(stringValue=text)
    return ttypes.TSparkParameter(ordinal=ordinal, name=name, type=kind, value=value)


def literal(kind: str | None, text: str | None) -> tuple[str, object]:
    """The field and the value."""
    [expression] = bound([parameter(kind, text)]).positional
    [(field, value)] = expression.literal.ListFields()
    return field.name, value


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_whole_numbers(number: int) -> None:
    assert literal("BIGINT", str(number)) == ("long", number)
    if -(1 << 31) <= number < 1 << 31:
        assert literal("INT", str(number)) == ("integer", number)
    else:
        with pytest.raises(BadParameter):
            literal("INT", str(number))


@given(st.decimals(allow_nan=False, allow_infinity=False, places=6, min_value=-(10**20), max_value=10**20))
def test_decimals_keep_all_digits(number: decimal.Decimal) -> None:
    for kind in ("DECIMAL", "DECIMAL(38,6)"):
        field, value = literal(kind, str(number))
        assert field == "decimal"
        assert decimal.Decimal(value.value) == number  # type: ignore[attr-defined]
        assert value.scale == 6  # type: ignore[attr-defined]
        assert value.precision >= len(number.as_tuple().digits)  # type: ignore[attr-defined]


@given(st.datetimes(min_value=datetime.datetime(1, 1, 2), max_value=datetime.datetime(9999, 12, 30)), st.integers(-12, 12))  # noqa: DTZ001 - hypothesis takes naive ones
def test_times(moment: datetime.datetime, hours: int) -> None:
    micros = (moment.replace(tzinfo=datetime.UTC) - EPOCH) // datetime.timedelta(microseconds=1)
    assert literal("TIMESTAMP", str(moment)) == ("timestamp_ntz", micros)
    zoned = moment.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=hours)))
    assert literal("TIMESTAMP", str(zoned)) == ("timestamp", micros - hours * 3_600_000_000)
    assert literal("TIMESTAMP_NTZ", str(zoned)) == ("timestamp_ntz", micros)
    assert literal("DATE", str(moment.date())) == ("date", (moment.date() - EPOCH.date()).days)


@given(st.text())
def test_text_is_text(text: str) -> None:
    assert literal("STRING", text) == ("string", text)
    assert literal(None, text) == ("string", text)
    assert literal("varchar(9)", text) == ("string", text)


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("BOOLEAN", "true", ("boolean", True)), ("BOOLEAN", "FALSE", ("boolean", False)), ("DOUBLE", "1.5", ("double", 1.5)),
        ("TINYINT", "-128", ("byte", -128)), ("SMALLINT", "7", ("short", 7)), ("BINARY", "ab", ("binary", b"ab")),
    ],
)  # fmt: skip
def test_other_types(kind: str, text: str, expected: tuple[str, object]) -> None:
    assert literal(kind, text) == expected


@pytest.mark.parametrize("kind", ["INT", "VOID", None])
def test_null(kind: str | None) -> None:
    assert literal(kind, None)[0] == "null"


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("INT", "1.5"), ("INT", "x"), ("TINYINT", "128"), ("DECIMAL(4,2)", "100"), ("DECIMAL", "NaN"), ("DATE", "tomorrow"),
        ("BOOLEAN", "perhaps"), ("INTERVAL DAY", "1"), ("ARRAY<INT>", "[1]"), ("INT) OR (1", "1"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(kind: str, text: str) -> None:
    with pytest.raises(BadParameter):
        literal(kind, text)


def test_places_and_names() -> None:
    given_ = [parameter("INT", "2", ordinal=2), parameter("INT", "1", ordinal=1)]
    assert [each.literal.integer for each in bound(given_).positional] == [1, 2]
    assert list(bound([parameter("INT", "1", name="x")]).named) == ["x"]
    with pytest.raises(BadParameter):
        bound([parameter("INT", "1", name="x"), parameter("INT", "1")])
