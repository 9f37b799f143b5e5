"""Catalogs, schemas, tables, columns and functions, as SQL clients ask for them: read with SQL in their own session."""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from typing import Any, NamedTuple

from databricks.sql.thrift_api.TCLIService import ttypes

from brickyard.gateway.sql.columns import Column, rows_of
from brickyard.gateway.sql.driver import Driver, Query, Target

_TYPE = ttypes.TTypeId
_STRING, _INT, _SMALL, _BOOL = _TYPE.STRING_TYPE, _TYPE.INT_TYPE, _TYPE.SMALLINT_TYPE, _TYPE.BOOLEAN_TYPE
MAX_TABLES = 10_000
# java.sql.Types, by Spark's names of types: what JDBC's getColumns answers, with the size and the decimal digits.
_JDBC: dict[str, tuple[int, int | None, int | None]] = {
    "boolean": (16, 1, None),
    "tinyint": (-6, 3, 0),
    "smallint": (5, 5, 0),
    "int": (4, 10, 0),
    "bigint": (-5, 19, 0),
    "float": (6, 7, 7),
    "double": (8, 15, 15),
    "string": (12, None, None),
    "varchar": (12, None, None),
    "char": (1, None, None),
    "binary": (-2, None, None),
    "date": (91, 10, 0),
    "timestamp": (93, 29, 6),
    "timestamp_ntz": (93, 29, 6),
    "decimal": (3, None, None),
    "array": (2003, None, None),
    "map": (2000, None, None),
    "struct": (2002, None, None),
    "void": (0, None, None),
}


class Table(NamedTuple):
    """A result that is made here: columns and rows."""

    columns: Sequence[Column]
    rows: list[tuple[Any, ...]]

    def values(self) -> list[list[Any]]:
        """A list for each column."""
        return [[row[at] for row in self.rows] for at in range(len(self.columns))]


def _columns(*given: tuple[str, int]) -> list[Column]:
    return [Column(name, kind) for name, kind in given]


CATALOGS = _columns(("TABLE_CAT", _STRING))
SCHEMAS = _columns(("TABLE_SCHEM", _STRING), ("TABLE_CATALOG", _STRING))
TABLE_TYPES = _columns(("TABLE_TYPE", _STRING))
TABLES = _columns(
    ("TABLE_CAT", _STRING), ("TABLE_SCHEM", _STRING), ("TABLE_NAME", _STRING), ("TABLE_TYPE", _STRING), ("REMARKS", _STRING),
    ("TYPE_CAT", _STRING), ("TYPE_SCHEM", _STRING), ("TYPE_NAME", _STRING), ("SELF_REFERENCING_COL_NAME", _STRING),
    ("REF_GENERATION", _STRING),
)  # fmt: skip
COLUMNS = _columns(
    ("TABLE_CAT", _STRING), ("TABLE_SCHEM", _STRING), ("TABLE_NAME", _STRING), ("COLUMN_NAME", _STRING), ("DATA_TYPE", _INT),
    ("TYPE_NAME", _STRING), ("COLUMN_SIZE", _INT), ("BUFFER_LENGTH", _TYPE.TINYINT_TYPE), ("DECIMAL_DIGITS", _INT),
    ("NUM_PREC_RADIX", _INT), ("NULLABLE", _INT), ("REMARKS", _STRING), ("COLUMN_DEF", _STRING), ("SQL_DATA_TYPE", _INT),
    ("SQL_DATETIME_SUB", _INT), ("CHAR_OCTET_LENGTH", _INT), ("ORDINAL_POSITION", _INT), ("IS_NULLABLE", _STRING),
    ("SCOPE_CATALOG", _STRING), ("SCOPE_SCHEMA", _STRING), ("SCOPE_TABLE", _STRING), ("SOURCE_DATA_TYPE", _SMALL),
    ("IS_AUTO_INCREMENT", _STRING),
)  # fmt: skip
FUNCTIONS = _columns(
    ("FUNCTION_CAT", _STRING), ("FUNCTION_SCHEM", _STRING), ("FUNCTION_NAME", _STRING), ("REMARKS", _STRING),
    ("FUNCTION_TYPE", _INT), ("SPECIFIC_NAME", _STRING),
)  # fmt: skip
PRIMARY_KEYS = _columns(
    ("TABLE_CAT", _STRING), ("TABLE_SCHEM", _STRING), ("TABLE_NAME", _STRING), ("COLUMN_NAME", _STRING), ("KEQ_SEQ", _INT),
    ("PK_NAME", _STRING),
)  # fmt: skip
CROSS_REFERENCE = _columns(
    ("PKTABLE_CAT", _STRING), ("PKTABLE_SCHEM", _STRING), ("PKTABLE_NAME", _STRING), ("PKCOLUMN_NAME", _STRING),
    ("FKTABLE_CAT", _STRING), ("FKTABLE_SCHEM", _STRING), ("FKTABLE_NAME", _STRING), ("FKCOLUMN_NAME", _STRING),
    ("KEQ_SEQ", _INT), ("UPDATE_RULE", _INT), ("DELETE_RULE", _INT), ("FK_NAME", _STRING), ("PK_NAME", _STRING),
    ("DEFERRABILITY", _INT),
)  # fmt: skip
TYPE_INFO = _columns(
    ("TYPE_NAME", _STRING), ("DATA_TYPE", _INT), ("PRECISION", _INT), ("LITERAL_PREFIX", _STRING), ("LITERAL_SUFFIX", _STRING),
    ("CREATE_PARAMS", _STRING), ("NULLABLE", _SMALL), ("CASE_SENSITIVE", _BOOL), ("SEARCHABLE", _SMALL),
    ("UNSIGNED_ATTRIBUTE", _BOOL), ("FIXED_PREC_SCALE", _BOOL), ("AUTO_INCREMENT", _BOOL), ("LOCAL_TYPE_NAME", _STRING),
    ("MINIMUM_SCALE", _SMALL), ("MAXIMUM_SCALE", _SMALL), ("SQL_DATA_TYPE", _INT), ("SQL_DATETIME_SUB", _INT),
    ("NUM_PREC_RADIX", _INT),
)  # fmt: skip


def table_types() -> Table:
    return Table(TABLE_TYPES, [("TABLE",), ("VIEW",)])


def type_info() -> Table:
    rows = []
    for name, (jdbc, size, digits) in _JDBC.items():
        text = name in ("string", "varchar", "char")
        quote = "'" if text else None
        radix = 10 if digits is not None else None
        rows.append(
            (name.upper(), jdbc, size, quote, quote, None, 1, text, 3, not text, False, False, None, 0, digits, None, None, radix)
        )
    return Table(TYPE_INFO, rows)


class Pattern:
    """A pattern of JDBC: `%` any text, `_` any character, a backslash before either for itself. None and "" are any."""

    def __init__(self, given: str | None) -> None:
        self.any = given in (None, "", "%", "*")
        parts = re.findall(r"\\.|.", given or "", re.DOTALL)
        ways = {"%": ".*", "_": "."}
        text = "".join(ways.get(part) or re.escape(part[-1]) for part in parts)
        self._compiled = re.compile(text, re.IGNORECASE | re.DOTALL)

    def matches(self, name: str) -> bool:
        return self.any or self._compiled.fullmatch(name) is not None


def quoted(*names: str) -> str:
    return ".".join("`" + name.replace("`", "``") + "`" for name in names)


class Metadata:
    """Reads them. Methods raise SqlFailed."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    async def catalogs(self, target: Target) -> Table:
        names = (await self._sql(target, "SHOW CATALOGS"))[0]
        return Table(CATALOGS, [(name,) for name in sorted(names)])

    async def schemas(self, target: Target, catalog: str | None, schema: str | None) -> Table:
        found = await self._schemas(target, catalog, Pattern(schema))
        return Table(SCHEMAS, [(name, of) for of, name in found])

    async def tables(
        self, target: Target, catalog: str | None, schema: str | None, table: str | None, types: list[str] | None
    ) -> Table:
        wanted = {kind.upper() for kind in types or ()}
        rows = []
        for of, within, name, kind in await self._tables(target, catalog, schema, table):
            if not wanted or kind in wanted:
                rows.append((of, within, name, kind, "", None, None, None, None, None))
        return Table(TABLES, rows)

    async def columns(
        self, target: Target, catalog: str | None, schema: str | None, table: str | None, column: str | None
    ) -> Table:
        pattern, rows = Pattern(column), list[tuple[Any, ...]]()
        for of, within, name, _ in await self._tables(target, catalog, schema, table):
            described = await self._sql(target, f"DESCRIBE TABLE {quoted(of, within, name)}")
            for at, (field, kind, comment) in enumerate(zip(*described[:3], strict=True)):
                if not field or field.startswith("#"):  # what follows is about partitions
                    break
                if pattern.matches(field):
                    rows.append(_column_row((of, within, name), at, field, kind, comment))
        return Table(COLUMNS, rows)

    async def functions(self, target: Target, catalog: str | None, schema: str | None, function: str | None) -> Table:
        pattern = Pattern(function)
        names = (await self._sql(target, "SHOW FUNCTIONS"))[0]
        rows = [(catalog, schema, name, "", 1, name) for name in names if pattern.matches(name.rpartition(".")[2])]
        return Table(FUNCTIONS, rows)

    async def _schemas(self, target: Target, catalog: str | None, schema: Pattern) -> list[tuple[str, str]]:
        of = catalog or (await self._sql(target, "SELECT current_catalog()"))[0][0]
        names = (await self._sql(target, f"SHOW SCHEMAS IN {quoted(of)}"))[0]
        return [(of, name) for name in sorted(names) if schema.matches(name)]

    async def _tables(
        self, target: Target, catalog: str | None, schema: str | None, table: str | None
    ) -> list[tuple[str, str, str, str]]:
        """Catalog, schema, name and type, of at most MAX_TABLES."""
        pattern, found = Pattern(table), list[tuple[str, str, str, str]]()
        for of, within in await self._schemas(target, catalog, Pattern(schema)):
            listed = await self._sql(target, f"SHOW TABLES IN {quoted(of, within)}")
            views = set((await self._sql(target, f"SHOW VIEWS IN {quoted(of, within)}"))[1])
            for name, temporary in zip(listed[1], listed[2], strict=True):
                if not temporary and pattern.matches(name):
                    found.append((of, within, name, "VIEW" if name in views else "TABLE"))
            if len(found) >= MAX_TABLES:
                break
        return found[:MAX_TABLES]

    async def _sql(self, target: Target, statement: str) -> list[list[Any]]:
        """The columns of a statement's result."""
        parts = [rows_of(chunk.stream) async for chunk in self._driver.execute(target, str(uuid.uuid4()), Query(statement))]
        return [[value for part in parts for value in part[at]] for at in range(len(parts[0]))]


def _column_row(table: tuple[str, str, str], at: int, name: str, kind: str, comment: str | None) -> tuple[Any, ...]:
    base = re.split(r"[(<]", kind, maxsplit=1)[0].strip().lower()
    jdbc, size, digits = _JDBC.get(base, (1111, None, None))
    if match := re.fullmatch(r"decimal\((\d+),(\d+)\)", kind):
        size, digits = int(match[1]), int(match[2])
    elif match := re.fullmatch(r"(?:var)?char\((\d+)\)", kind):
        size = int(match[1])
    radix = 10 if digits is not None and base not in ("date", "timestamp", "timestamp_ntz") else None
    nullable = (1, comment, None, None, None, None, at, "YES", None, None, None, None, "NO")
    return (*table, name, jdbc, kind.upper(), size, None, digits, radix, *nullable)
