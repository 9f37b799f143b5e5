"""Results of the Statement Execution API in JSON_ARRAY: the text of each type's values, and the names of the type."""

from __future__ import annotations

import datetime
import decimal
import math
import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brickyard.gateway.sql.columns import columns_of, row_set
from brickyard.gateway.sql.results import columns_in, rows_in
from brickyard.gateway.sql.values import values_of
from tests.gateway.sqlworld import arrow

UTC, TOKYO = pa.timestamp("us", "UTC"), pa.timestamp("us", "Asia/Tokyo")
NAIVE = datetime.datetime(2024, 2, 3, 4, 5, 6, 789123)  # noqa: DTZ001 - TIMESTAMP_NTZ
MOMENT = NAIVE.replace(tzinfo=datetime.UTC)
NAN, INFINITE = float("nan"), float("inf")
MAP = pa.map_(pa.string(), pa.decimal128(5, 2))


@pytest.mark.parametrize(
    ("kind", "values", "texts", "name", "text"),
    [
        (pa.null(), [None], [None], "NULL", "VOID"),
        (pa.bool_(), [True, False], ["true", "false"], "BOOLEAN", "BOOLEAN"),
        (pa.int8(), [-128], ["-128"], "BYTE", "TINYINT"),
        (pa.int16(), [32767], ["32767"], "SHORT", "SMALLINT"),
        (pa.int32(), [-(2**31)], ["-2147483648"], "INT", "INT"),
        (pa.int64(), [2**63 - 1], ["9223372036854775807"], "LONG", "BIGINT"),
        (pa.float32(), [0.1, 16777216.0, 1e-5, NAN], ["0.1", "1.6777216E7", "1.0E-5", "NaN"], "FLOAT", "FLOAT"),
        (
            pa.float64(), [0.1, 1.0, 1e7, 1.5e-7, -0.0, NAN, INFINITE, -INFINITE],
            ["0.1", "1.0", "1.0E7", "1.5E-7", "-0.0", "NaN", "Infinity", "-Infinity"], "DOUBLE", "DOUBLE",
        ),
        (pa.decimal128(38, 10), [decimal.Decimal("-1.5")], ["-1.5000000000"], "DECIMAL", "DECIMAL(38,10)"),
        (pa.decimal128(38, 0), [decimal.Decimal(10) ** 37], ["1" + "0" * 37], "DECIMAL", "DECIMAL(38,0)"),
        (pa.decimal128(20, 18), [decimal.Decimal("1E-18")], ["0.000000000000000001"], "DECIMAL", "DECIMAL(20,18)"),
        (pa.string(), ["", "ä\n\"'", "null"], ["", "ä\n\"'", "null"], "STRING", "STRING"),
        (pa.binary(), [b"", b"\x00\xff"], ["", "AP8="], "BINARY", "BINARY"),
        (pa.date32(), [datetime.date(1, 1, 1), datetime.date(9999, 12, 31)], ["0001-01-01", "9999-12-31"], "DATE", "DATE"),
        (UTC, [MOMENT], ["2024-02-03T04:05:06.789Z"], "TIMESTAMP", "TIMESTAMP"),
        (TOKYO, [MOMENT], ["2024-02-03T04:05:06.789Z"], "TIMESTAMP", "TIMESTAMP"),
        (pa.timestamp("us"), [NAIVE], ["2024-02-03T04:05:06.789"], "TIMESTAMP", "TIMESTAMP_NTZ"),
        (
            pa.duration("us"), [datetime.timedelta(days=-1, seconds=1), datetime.timedelta(hours=26, microseconds=5)],
            ["-0 23:59:59.000000000", "1 02:00:00.000005000"], "INTERVAL", "INTERVAL DAY TO SECOND",
        ),
        (pa.list_(pa.int32()), [[], [1, None]], ["[]", "[1,null]"], "ARRAY", "ARRAY<INT>"),
        (pa.list_(pa.float32()), [[0.1, NAN]], ['[0.1,"NaN"]'], "ARRAY", "ARRAY<FLOAT>"),
        (pa.list_(pa.list_(pa.date32())), [[[datetime.date(2024, 2, 3)]]], ['[["2024-02-03"]]'], "ARRAY", "ARRAY<ARRAY<DATE>>"),
        (MAP, [[], [("k", decimal.Decimal("1.50"))]], ["{}", '{"k":"1.50"}'], "MAP", "MAP<STRING, DECIMAL(5,2)>"),
        (pa.map_(pa.int64(), pa.bool_()), [[(7, True)]], ['{"7":true}'], "MAP", "MAP<BIGINT, BOOLEAN>"),
        (
            pa.struct([("t", UTC), ("b", pa.binary()), ("f", pa.float32())]), [{"t": MOMENT, "b": b"a", "f": 0.1}],
            ['{"t":"2024-02-03T04:05:06.789Z","b":"YQ==","f":0.1}'], "STRUCT", "STRUCT<t: TIMESTAMP, b: BINARY, f: FLOAT>",
        ),
    ],
)  # fmt: skip
def test_each_type_has_its_text_and_names(kind: Any, values: list[Any], texts: list[str | None], name: str, text: str) -> None:
    stream = arrow(pa.table({"a": pa.array([*values, None], kind)}))
    assert [row[0] for row in rows_in(stream)] == [*texts, None]
    (column,) = columns_in(stream)
    assert (column.type_name, column.type_text, column.position) == (name, text, 0)
    if name == "DECIMAL":
        assert text == f"DECIMAL({column.type_precision},{column.type_scale})"
    if name == "INTERVAL":
        assert text == f"INTERVAL {column.type_interval_type}"


def shown(column: pa.Array) -> tuple[str | None, str]:
    """The text of a column's only value in JSON_ARRAY, and in a set of columns."""
    stream = arrow(pa.table({"a": column}))
    ((found,),) = rows_in(stream)
    ((text,),) = (each.stringVal.values for each in row_set(columns_of(stream), values_of(stream)).columns)
    return found, text


@pytest.mark.parametrize(
    ("kind", "value", "iso", "text"),
    [
        (pa.map_(pa.decimal128(5, 2), pa.int32()), [(decimal.Decimal("-1.50"), 1)], '{"-1.50":1}', '{"-1.50":1}'),
        (pa.map_(pa.float32(), pa.int32()), [(0.1, 1)], '{"0.1":1}', '{"0.1":1}'),
        (pa.map_(pa.bool_(), pa.int32()), [(True, 1)], '{"true":1}', '{"true":1}'),
        (pa.map_(pa.binary(), pa.binary()), [(b"a", b"b")], '{"YQ==":"Yg=="}', '{"YQ==":"Yg=="}'),
        (pa.map_(pa.date32(), pa.int32()), [(datetime.date(1, 1, 1), 1)], '{"0001-01-01":1}', '{"0001-01-01":1}'),
        (
            pa.list_(pa.map_(TOKYO, pa.int32())), [[(MOMENT, 1)]],
            '[{"2024-02-03T04:05:06.789Z":1}]', '[{"2024-02-03 13:05:06.789123":1}]',
        ),
        (pa.map_(pa.duration("us"), pa.int32()), [(datetime.timedelta(1), 1)], *['{"1 00:00:00.000000000":1}'] * 2),
        (pa.struct([("b", pa.list_(pa.binary()))]), {"b": [b"a"]}, '{"b":["YQ=="]}', '{"b":["YQ=="]}'),
    ],
)  # fmt: skip
def test_keys_of_maps_and_what_is_nested_have_the_text_of_their_type(kind: Any, value: Any, iso: str, text: str) -> None:
    assert shown(pa.array([value], kind)) == (iso, text)


BEFORE, AFTER = -62135596800, 253402300799  # 0001-01-01T00:00:00Z and 9999-12-31T23:59:59Z in seconds
NEW_YORK = "America/New_York"


@pytest.mark.parametrize(
    ("zone", "seconds", "iso", "text"),
    [
        ("UTC", BEFORE, "0001-01-01T00:00:00.000Z", "0001-01-01 00:00:00"),
        (None, BEFORE - 86400, "0000-12-31T00:00:00.000", "0000-12-31 00:00:00"),
        ("UTC", BEFORE - 146097 * 86400, "-0399-01-01T00:00:00.000Z", "-0399-01-01 00:00:00"),
        (NEW_YORK, AFTER + 5 * 3600, "+10000-01-01T04:59:59.000Z", "9999-12-31 23:59:59"),
        (NEW_YORK, AFTER - 170 * 86400, "9999-07-14T23:59:59.000Z", "9999-07-14 19:59:59"),
        ("Asia/Tokyo", AFTER, "9999-12-31T23:59:59.000Z", "+10000-01-01 08:59:59"),
        ("Asia/Tokyo", BEFORE - 9 * 3600, "0000-12-31T15:00:00.000Z", "0001-01-01 00:18:59"),
        (NEW_YORK, 0, "1970-01-01T00:00:00.000Z", "1969-12-31 19:00:00"),
        ("GMT+8", 0, "1970-01-01T00:00:00.000Z", "1970-01-01 08:00:00"),
        ("-03:30", 0, "1970-01-01T00:00:00.000Z", "1969-12-31 20:30:00"),
        ("PST", 0, "1970-01-01T00:00:00.000Z", "1969-12-31 16:00:00"),
    ],
)
def test_times_of_each_year_and_zone_of_sparks_are_read(zone: str | None, seconds: int, iso: str, text: str) -> None:
    moments = pa.array([seconds * 1_000_000], pa.int64()).view(pa.timestamp("us", zone))
    assert shown(moments) == (iso, text)
    assert shown(pa.ListArray.from_arrays([0, 1], moments)) == (f'["{iso}"]', f'["{text}"]')


@pytest.mark.parametrize(("day", "text"), [(2932897, "+10000-01-01"), (-719163, "0000-12-31"), (-719529, "-0001-12-31")])
def test_days_of_each_year_of_sparks_are_read(day: int, text: str) -> None:
    assert shown(pa.array([day], pa.int32()).view(pa.date32())) == (text, text)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=9, min_value=-(10**28), max_value=10**28))
def test_a_decimal_keeps_its_sign_and_digits(number: decimal.Decimal) -> None:
    stream = arrow(pa.table({"a": pa.array([number], pa.decimal128(38, 9))}))
    assert values_of(stream) == [[number]]
    assert rows_in(stream) == [[f"{number:.9f}"]]


@given(st.floats(width=32))
def test_a_float_is_read_back_from_its_text(number: float) -> None:
    ((found,),) = rows_in(arrow(pa.table({"a": pa.array([number], pa.float32())})))
    assert found is not None
    assert struct.pack("f", float(found)) == struct.pack("f", number) or math.isnan(number)
    assert len(found.strip("-").partition("E")[0].replace(".", "").strip("0")) <= 9
