"""Catalogs, schemas, tables, columns and functions, as SQL clients ask for them: read with SQL in their own session."""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from typing import Any, NamedTuple

from databricks.sql.thrift_api.TCLIService import ttypes

from brickyard.gateway.sql.columns import Column
from brickyard.gateway.sql.driver import Driver, Query, Target
from brickyard.gateway.sql.failures import SqlFailed
from brickyard.gateway.sql.values import values_of

_TYPE = ttypes.TTypeId
_STRING, _INT, _SMALL, _BOOL = _TYPE.STRING_TYPE, _TYPE.INT_TYPE, _TYPE.SMALLINT_TYPE, _TYPE.BOOLEAN_TYPE
MAX_ROWS = 1_000_000  # of an answer
_SAME = ("main", "hive_metastore", "spark_catalog")  # names of one catalog
_SPARKS = "spark_catalog"
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
    """A pattern of JDBC: `%` any text, `_` any character, a backslash before either for itself. None and "" are any.

    `exact`: the one name that it stands for, or "".
    """

    def __init__(self, given: str | None) -> None:
        self.any = given in (None, "", "%", "*")
        parts = re.findall(r"\\.|.", given or "", re.DOTALL)
        ways = {"%": ".*", "_": "."}
        text = "".join(ways.get(part) or re.escape(part[-1]) for part in parts)
        self._compiled = re.compile(text, re.IGNORECASE | re.DOTALL)
        self.exact = "" if self.any or {"%", "_"} & set(parts) else "".join(part[-1] for part in parts)

    def matches(self, name: str) -> bool:
        return self.any or self._compiled.fullmatch(name) is not None


def quoted(*names: str) -> str:
    return ".".join("`" + name.replace("`", "``") + "`" for name in names)


_TABLES = "SELECT table_schema, table_name, table_type, comment FROM system.information_schema.tables"
_COLUMNS = (
    "SELECT table_schema, table_name, ordinal_position, column_name, full_data_type, comment, is_nullable, column_default "
    "FROM system.information_schema.columns"
)


class _Wanted(NamedTuple):
    """Which tables a client asks for."""

    schema: Pattern
    table: Pattern

    @property
    def where(self) -> str:
        """What the driver need not read and send, as far as it is exact."""
        named = (("table_schema", self.schema.exact), ("table_name", self.table.exact))
        exact = [f"{column} = {_literal(name.lower())}" for column, name in named if name]
        return f" WHERE {' AND '.join(exact)}" if exact else ""

    def matches(self, schema: str, table: str) -> bool:
        return self.schema.matches(schema) and self.table.matches(table)


class _Name(NamedTuple):
    """A table or view. A temporary view has no catalog and no schema."""

    catalog: str
    schema: str
    table: str


class Metadata:
    """Reads them. Methods raise SqlFailed. What does not exist has no rows.

    The workspace's catalog is read with one statement on information_schema, however many tables it has; other catalogs, and
    clusters without information_schema, with statements for each schema and table.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    async def place(self, target: Target) -> str:
        """The catalog and the schema in which the session is."""
        return quoted(*(name for (name,) in await self._sql(target, "SELECT current_catalog(), current_schema()")))

    async def catalogs(self, target: Target) -> Table:
        names = set((await self._sql(target, "SHOW CATALOGS"))[0])
        if names & set(_SAME[:2]):
            names.discard(_SPARKS)
        return Table(CATALOGS, [(name,) for name in sorted(names)])

    async def schemas(self, target: Target, catalog: str | None, schema: str | None) -> Table:
        of = _named(catalog)
        found = await self._schemas(target, of, Pattern(schema))
        return Table(SCHEMAS, [(name, of) for name in found])

    async def tables(
        self, target: Target, catalog: str | None, schema: str | None, table: str | None, types: list[str] | None
    ) -> Table:
        wanted, of = {kind.upper() for kind in types or ()}, _named(catalog)
        found = await self._information(target, of, _TABLES, _Wanted(Pattern(schema), Pattern(table)))
        rows: list[tuple[_Name, str, str]]
        if found is None:
            rows = [(name, kind, "") for name, kind in await self._listed(target, of, schema, table)]
        else:
            rows = [(name, "VIEW" if kind == "VIEW" else "TABLE", comment or "") for name, kind, comment in found]
        if Pattern(schema).any and of in _SAME:
            rows = [*((name, "VIEW", "") for name in await self._temporary(target, table)), *rows]
        rows.sort(key=lambda row: (row[1], row[0]))
        nothing = (None,) * 5
        return Table(TABLES, [(*name, kind, comment, *nothing) for name, kind, comment in rows if not wanted or kind in wanted])

    async def columns(
        self, target: Target, catalog: str | None, schema: str | None, table: str | None, column: str | None
    ) -> Table:
        pattern, of = Pattern(column), _named(catalog)
        found = await self._information(target, of, _COLUMNS, _Wanted(Pattern(schema), Pattern(table)))
        described = await self._temporary(target, table) if Pattern(schema).any and of in _SAME else []
        if found is None:
            described += [name for name, _ in await self._listed(target, of, schema, table)]
            found = []
        rows = [_column_row(name, values) for name, *values in sorted(found, key=lambda row: row[:2])]
        for name in described:
            rows += [_column_row(name, values) for values in await self._described(target, name)]
        return Table(COLUMNS, [row for row in rows if pattern.matches(row[3])])

    async def functions(self, target: Target, catalog: str | None, schema: str | None, function: str | None) -> Table:
        """Spark's own, which are in no schema, and those of the workspace."""
        pattern, of = Pattern(function), _named(catalog)
        names = (await self._sql(target, "SHOW SYSTEM FUNCTIONS"))[0]
        rows: list[tuple[Any, ...]] = [(None, None, name, "", 1, name) for name in names]
        if of in _SAME:
            for within in await self._schemas(target, of, Pattern(schema)):
                names = (await self._sql(target, f"SHOW USER FUNCTIONS IN {quoted(within)}"))[0]
                own = [name.rpartition(".")[2] for name in names]
                rows += [(of, within, name, "", 1, f"{of}.{within}.{name}") for name in own]
        return Table(FUNCTIONS, [row for row in rows if pattern.matches(row[2])])

    async def _information(self, target: Target, catalog: str, query: str, wanted: _Wanted) -> list[Any] | None:
        """Rows of a query of information_schema: a name, and the other fields. None: it does not know the catalog."""
        if catalog not in _SAME:
            return None
        try:
            values = await self._sql(target, query + wanted.where)
        except SqlFailed as error:
            if error.of_the_call or not _is_missing(error):
                raise
            return None
        rows = zip(*values, strict=True)
        return [(_Name(catalog, within, of), *rest) for within, of, *rest in rows if wanted.matches(within, of)][:MAX_ROWS]

    async def _schemas(self, target: Target, catalog: str, schema: Pattern) -> list[str]:
        try:
            names = (await self._sql(target, f"SHOW SCHEMAS IN {quoted(catalog)}"))[0]
        except SqlFailed as error:
            if error.of_the_call or not _is_missing(error):
                raise
            return []
        return [name for name in sorted(names) if schema.matches(name)]

    async def _listed(self, target: Target, catalog: str, schema: str | None, table: str | None) -> list[tuple[_Name, str]]:
        """Names and types of the tables of a catalog, which has views or not."""
        pattern, found = Pattern(table), list[tuple[_Name, str]]()
        for within in await self._schemas(target, catalog, Pattern(schema)):
            listed = await self._sql(target, f"SHOW TABLES IN {quoted(catalog, within)}")
            try:
                views = set((await self._sql(target, f"SHOW VIEWS IN {quoted(catalog, within)}"))[1])
            except SqlFailed as error:
                if error.of_the_call:
                    raise
                views = set()
            for name, temporary in zip(listed[1], listed[2], strict=True):
                if not temporary and pattern.matches(name):
                    found.append((_Name(catalog, within, name), "VIEW" if name in views else "TABLE"))
        return found

    async def _temporary(self, target: Target, table: str | None) -> list[_Name]:
        """The session's temporary views."""
        pattern, listed = Pattern(table), await self._sql(target, "SHOW TABLES IN `default` LIKE '*'")
        found = zip(listed[0], listed[1], listed[2], strict=True)
        return [_Name("", "", name) for _, name, temporary in found if temporary and pattern.matches(name)]

    async def _described(self, target: Target, name: _Name) -> list[tuple[Any, ...]]:
        """Position, name, type, comment, whether null is allowed, and default of the columns of a table."""
        try:
            described = await self._sql(target, f"DESCRIBE TABLE {quoted(*filter(None, name))}")
        except SqlFailed as error:  # dropped meanwhile, or its format is not part of the cluster's runtime
            if error.of_the_call:
                raise
            return []
        rows = list[tuple[Any, ...]]()
        for at, (field, kind, comment) in enumerate(zip(*described[:3], strict=True)):
            if not field or field.startswith("#"):  # what follows is about partitions
                break
            rows.append((at, field, kind, comment, "YES", None))
        return rows

    async def _sql(self, target: Target, statement: str) -> list[list[Any]]:
        """The columns of a statement's result."""
        parts = [values_of(chunk.stream) async for chunk in self._driver.execute(target, str(uuid.uuid4()), Query(statement))]
        return [[value for part in parts for value in part[at]] for at in range(len(parts[0]))]


def _named(catalog: str | None) -> str:
    """The catalog that a client asks for. None is the workspace's."""
    return _SAME[0] if Pattern(catalog).any else str(catalog)


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _is_missing(error: SqlFailed) -> bool:
    """Whether a catalog or a schema does not exist. Spark takes the name of a catalog that it does not know for a schema's."""
    return any(name in error.text for name in ("_NOT_FOUND]", "[REQUIRES_SINGLE_PART_NAMESPACE]", "[SCHEMA_NOT_FOUND"))


def _column_row(table: tuple[str, str, str], values: Sequence[Any]) -> tuple[Any, ...]:
    """`values`: position, name, type, comment, YES or NO for whether it may be null, default."""
    at, name, kind, comment, nullable, default = values
    base = re.split(r"[(<]", kind, maxsplit=1)[0].strip().lower()
    jdbc, size, digits = _JDBC.get(base, (1111, None, None))
    if match := re.fullmatch(r"decimal\((\d+),(\d+)\)", kind):
        size, digits = int(match[1]), int(match[2])
    elif match := re.fullmatch(r"(?:var)?char\((\d+)\)", kind):
        size = int(match[1])
    radix = 10 if digits is not None and base not in ("date", "timestamp", "timestamp_ntz") else None
    rest = (int(nullable == "YES"), comment or "", default, None, None, None, at, nullable, None, None, None, None, "NO")
    return (*table, name, jdbc, kind.upper(), size, None, digits, radix, *rest)
