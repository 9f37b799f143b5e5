"""Values of an Arrow stream as Python has them. Pure.

nanoarrow reads no maps, and negative decimals wrongly. A map lies in memory as a list of structs with a key and a value [Apache
Arrow, "Map Layout"], a decimal as a whole number of 16 bytes. So they are read as lists and as bytes: the schema is changed, the
data is not copied. A DATE and a TIMESTAMP are read as numbers: Python has neither all years nor all zones of Java's. A FLOAT is
the double that has its text, as Hive and Java have it: 0.1, not 0.10000000149011612.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import struct
from typing import Any

import nanoarrow
from nanoarrow.c_array import CArray
from nanoarrow.c_array_stream import CArrayStream
from nanoarrow.ipc import InputStream

from brickyard.gateway.sql.zones import zone_of

_MAP, _LIST, _STRUCT, _FLOAT, _DECIMAL = "+m", "+l", "+s", "f", "d:"
_DATE, _TIMESTAMP = "tdD", "tsu:"
_BYTES = "w:16"
_NUMBERS = {_DATE: "i", _TIMESTAMP: "l"}
_DIGITS = decimal.Context(prec=76)  # more than decimals have
_SINGLE = struct.Struct("f")
_LARGEST = 3.4028234663852886e38  # FLOAT; larger ones cannot be packed
_ENOUGH, _ALL = 6, 9  # digits that a FLOAT has at least, and at most
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_EPOCH_DAY = _EPOCH.toordinal()
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097  # after so many, the calendar repeats
_MICROSECOND = datetime.timedelta(microseconds=1)
_CYCLE = datetime.timedelta(_CYCLE_DAYS) // _MICROSECOND
_FIRST = (datetime.datetime(2, 1, 1, tzinfo=datetime.UTC) - _EPOCH) // _MICROSECOND  # these years are Python's in each zone
_LAST = (datetime.datetime(9999, 1, 1, tzinfo=datetime.UTC) - _EPOCH) // _MICROSECOND


@dataclasses.dataclass(frozen=True, slots=True)
class Far:
    """A DATE or a TIMESTAMP of a year that Python may not have: the same of another year, and how many years to add."""

    value: datetime.date
    years: int

    def dated(self, text: str) -> str:
        """The text of `value`, which begins with its year, with the right year as Java writes it."""
        year = int(text[:4]) + self.years
        return f"{'+' if year > datetime.MAXYEAR else ''}{year:0{5 if year < 0 else 4}d}{text[4:]}"


def values_of(stream: bytes) -> list[list[Any]]:
    """The values, a list for each column. A map is a dict."""
    with nanoarrow.ArrayStream(InputStream.from_readable(stream)) as found:
        raw = nanoarrow.c_array_stream(found)
        schema = raw.get_schema()
        readable = _readable(schema)
        arrays = [_as(array, readable) for array in raw]
        table = nanoarrow.Array(CArrayStream.from_c_arrays(arrays, readable))
        columns = [list(table.child(at).to_pylist()) for at in range(table.n_children)]
        return [
            [_converted(value, child) for value in column] if _differs(child) else column
            for column, child in zip(columns, schema.children, strict=True)
        ]


def _readable(schema: Any) -> Any:
    """The schema with lists in place of maps, bytes in place of decimals, and numbers in place of dates and times."""
    if schema.format.startswith(_DECIMAL):
        return schema.modify(format=_BYTES)
    if (number := _NUMBERS.get(schema.format[:4])) is not None:
        return schema.modify(format=number)
    if not _differs(schema):
        return schema
    children = [_readable(child) for child in schema.children]
    return schema.modify(format=_LIST if schema.format == _MAP else schema.format, children=children)


def _as(array: Any, schema: Any) -> Any:
    """The array with another schema of the same layout."""
    return CArray._import_from_c_capsule(schema.__arrow_c_schema__(), array.__arrow_c_array__()[1])


def _differs(schema: Any) -> bool:
    """Whether nanoarrow's values are not those that are wanted."""
    kind = schema.format
    return kind in (_MAP, _FLOAT) or kind.startswith((_DECIMAL, _DATE, _TIMESTAMP)) or any(map(_differs, schema.children))


def _converted(value: Any, schema: Any) -> Any:  # noqa: PLR0911 - a line for each type
    """The value, as the schema says."""
    if value is None:
        return None
    if schema.format == _FLOAT:
        return _double(value)
    if schema.format == _DATE:
        return _date(value)
    if schema.format.startswith(_TIMESTAMP):
        return _moment(value, schema.format.removeprefix(_TIMESTAMP))
    if schema.format.startswith(_DECIMAL):
        scale = int(schema.format.split(",")[1])
        return decimal.Decimal(int.from_bytes(value, "little", signed=True)).scaleb(-scale, _DIGITS)
    children = list(schema.children)
    if schema.format == _MAP:
        key, item = children[0].children
        return {_key(_converted(entry[key.name], key)): _converted(entry[item.name], item) for entry in value}
    if schema.format == _LIST:
        return [_converted(each, children[0]) for each in value]
    if schema.format == _STRUCT:
        return {child.name: _converted(value[child.name], child) for child in children}
    return value


def _double(value: float) -> float:
    """The double whose text is the FLOAT's."""
    for digits in range(_ENOUGH, _ALL):
        short = float(f"{value:.{digits}g}")
        if abs(short) < _LARGEST and _SINGLE.unpack(_SINGLE.pack(short))[0] == value:
            return short
    return float(f"{value:.{_ALL}g}")


def _date(days: int) -> datetime.date | Far:
    day = _EPOCH_DAY + days
    if 1 <= day <= datetime.date.max.toordinal():
        return datetime.date.fromordinal(day)
    cycles, rest = divmod(days, _CYCLE_DAYS)
    return Far(datetime.date.fromordinal(_EPOCH_DAY + rest), cycles * _CYCLE_YEARS)


def _moment(micros: int, zone_name: str) -> datetime.datetime | Far:
    """A TIMESTAMP in its zone; "": a TIMESTAMP_NTZ."""
    zone = zone_of(zone_name) if zone_name else None
    cycles = 0
    if not _FIRST <= micros < _LAST:
        cycles, micros = divmod(micros, _CYCLE)
        if cycles > 0:  # to a year that has the zone's last rules
            cycles, micros = cycles - 1, micros + _CYCLE
        elif zone is not None:  # the zone's first rule, not that of the other year
            zone = datetime.timezone(zone.utcoffset(datetime.datetime(1, 1, 1)) or datetime.timedelta())  # noqa: DTZ001
    moment = _EPOCH + micros * _MICROSECOND
    moment = moment.replace(tzinfo=None) if zone is None else moment.astimezone(zone)
    return Far(moment, cycles * _CYCLE_YEARS) if cycles else moment


def _key(value: Any) -> Any:
    return str(value) if isinstance(value, dict | list) else value


def months_text(months: int) -> str:
    """An INTERVAL YEAR TO MONTH as Spark writes it."""
    return f"{'-' if months < 0 else ''}{abs(months) // 12}-{abs(months) % 12}"


def interval_text(value: datetime.timedelta) -> str:
    """An INTERVAL DAY TO SECOND as Spark writes it."""
    sign, size = ("-", -value) if value < datetime.timedelta() else ("", value)
    hours, rest = divmod(size.seconds, 3600)
    return f"{sign}{size.days} {hours:02d}:{rest // 60:02d}:{rest % 60:02d}.{size.microseconds:06d}000"
