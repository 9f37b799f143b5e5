"""`display` and its output: DataFrames as tables, everything else as IPython shows it."""

from __future__ import annotations

import base64
import datetime
import json
import math
import sys
from collections.abc import Callable, Iterable
from typing import Any

from ..wire import TABLE_MIME

MAX_ROWS = 1000
_UTC = datetime.timezone.utc  # noqa: UP017 - `datetime.UTC` came with Python 3.11
MAX_BYTES = 9 * 1024 * 1024  # of rows as JSON; less than results.LIMIT, which leaves room for the schema

_PANDAS_TYPES = (  # prefixes of pandas' type names; the first match counts
    ("int8", "byte"),
    ("int16", "short"),
    ("int32", "integer"),
    ("int", "long"),
    ("uint", "long"),
    ("float32", "float"),
    ("float", "double"),
    ("bool", "boolean"),
    ("datetime64", "timestamp"),
)


def bound_text(formatter: Any, limit: int) -> None:
    """Has IPython's formatter of values cut texts off at `limit` characters, before they are copied into a message."""
    form = formatter.format

    def bounded_form(*args: Any, **options: Any) -> tuple[dict[str, Any], Any]:
        bundle, more = form(*args, **options)
        cut = {kind: value[:limit] for kind, value in bundle.items() if isinstance(value, str) and kind.startswith("text/")}
        return {**bundle, **cut}, more

    formatter.format = bounded_form


class Unkept(dict[int, Any]):
    """Takes what IPython remembers of each command, and keeps nothing."""

    def __missing__(self, key: int) -> list[Any]:
        return []

    def __setitem__(self, key: int, value: Any) -> None:
        """Drops the value."""


def forget_outputs(history: Any) -> None:
    """Has IPython's history not remember what commands print and show, or their errors: nothing reads it, and it would grow with
    everything that a context ever printed."""
    history.outputs = Unkept()
    history.exceptions = Unkept()


def plain(value: Any) -> Any:  # noqa: PLR0911 - a table of types, one line each
    """Converts a value for JSON: decimals, dates, NaN and infinities to strings, binary to base64, rows to objects."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value) if -(2**63) <= value < 2**64 else str(value)
    if isinstance(value, float):
        return (
            float(value)
            if math.isfinite(value)
            else {True: "NaN"}.get(math.isnan(value), "Infinity" if value > 0 else "-Infinity")
        )
    if isinstance(value, datetime.datetime):
        return timestamp(value)
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode("ascii")
    if hasattr(value, "asDict"):
        return {str(key): plain(item) for key, item in value.asDict().items()}
    if isinstance(value, dict):
        return {key if isinstance(key, str) else str(plain(key)): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    if hasattr(value, "item") and hasattr(value, "dtype") and getattr(value, "shape", None) == ():
        return plain(value.item())
    if hasattr(value, "tolist") and hasattr(value, "dtype"):
        return plain(value.tolist())
    return str(value)  # Decimal, date, timedelta, vectors of ML, ...


def timestamp(value: datetime.datetime) -> str:
    """Formats as ISO 8601 in Databricks' style, `2024-01-31T12:00:00.000+0000`; without a zone if the value has none."""
    digits = f"{value.microsecond:06d}"
    fraction = digits if digits[3:] != "000" else digits[:3]
    return f"{value.year:04d}{value.strftime('-%m-%dT%H:%M:%S')}.{fraction}{value.strftime('%z')}"


def bounded(rows: Iterable[list[Any]], *, max_rows: int = MAX_ROWS, max_bytes: int = MAX_BYTES) -> tuple[list[list[Any]], bool]:
    """Returns the first rows within both limits, and whether any were left out."""
    kept: list[list[Any]] = []
    size = 0
    for row in rows:
        size += len(json.dumps(row)) + 2
        if len(kept) >= max_rows or size > max_bytes:
            return kept, True
        kept.append(row)
    return kept, False


def spark_table(frame: Any) -> dict[str, Any]:
    """Returns a Spark DataFrame's first rows. Runs a Spark job."""
    fields = frame.schema.fields
    zoned = [field.dataType.typeName() == "timestamp" for field in fields]

    def cells(row: Any) -> list[Any]:
        # Spark returns timestamps in the process's zone without naming it; `astimezone` adds the zone.
        return [
            timestamp(value.astimezone(_UTC)) if zone and isinstance(value, datetime.datetime) else plain(value)
            for value, zone in zip(tuple(row), zoned)  # noqa: B905 - `strict` came with Python 3.10
        ]

    rows = frame.take(MAX_ROWS + 1) if fields else []
    data, truncated = bounded(cells(row) for row in rows)
    schema = [
        {"name": field.name, "type": json.dumps(field.dataType.jsonValue()), "metadata": json.dumps(field.metadata or {})}
        for field in fields
    ]
    return {"schema": schema, "data": data, "truncated": truncated}


def pandas_table(frame: Any, *, labelled: bool = False) -> dict[str, Any]:
    """Returns a pandas DataFrame's first rows, without its index. `labelled`: an index other than row numbers comes first."""
    frame = frame.head(MAX_ROWS + 1)
    if labelled and type(frame.index).__name__ != "RangeIndex":
        labels = frame.index.to_frame(index=False)
        labels.columns = ["" if name is None else name for name in frame.index.names]
        frame = sys.modules["pandas"].concat([labels, frame.reset_index(drop=True)], axis=1)
    schema = []
    for name, kind in zip(frame.columns, frame.dtypes):  # noqa: B905 - `strict` came with Python 3.10
        known = next((spark for prefix, spark in _PANDAS_TYPES if str(kind).lower().startswith(prefix)), "string")
        schema.append({"name": str(name), "type": json.dumps(known), "metadata": "{}"})
    rows = frame.itertuples(index=False, name=None)
    data, truncated = bounded([_pandas_cell(value) for value in row] for row in rows)
    return {"schema": schema, "data": data, "truncated": truncated}


def _pandas_cell(value: Any) -> Any:
    if type(value).__name__ in ("NaTType", "NAType") or (isinstance(value, float) and math.isnan(value)):
        return None
    return plain(value)


def _kind(value: Any) -> str:
    """Returns which library's DataFrame it is, without importing one."""
    for base in type(value).__mro__:
        root = base.__module__.partition(".")[0]
        if base.__name__ == "DataFrame" and root in ("pyspark", "pandas"):
            pandas_on_spark = root == "pyspark" and ".pandas" in base.__module__
            return "pandas-on-spark" if pandas_on_spark else root
    return ""


class Figures:
    """Matplotlib's figures that a command has displayed. IPython would show those that are open at the command's end again."""

    def __init__(self) -> None:
        self._displayed: list[Any] = []

    def displayed(self, value: Any) -> None:
        if any(base.__module__ == "matplotlib.figure" and base.__name__ == "Figure" for base in type(value).__mro__):
            self._displayed.append(value)

    def close(self) -> None:
        """Closes them, as IPython closes all figures at the end of a command."""
        figures, self._displayed = self._displayed, []
        pyplot = sys.modules.get("matplotlib.pyplot")
        for figure in figures if pyplot is not None else ():
            pyplot.close(figure)  # type: ignore[union-attr] # checked above


def make_display(
    publish: Callable[[dict[str, Any]], None], fallback: Callable[..., Any], figures: Figures | None = None
) -> Callable[..., None]:
    """Makes `display(value, ...)` for the user's namespace. `publish` sends a MIME bundle; `fallback` is IPython's own
    display."""

    def table(value: Any) -> None:
        kind = _kind(value)
        if kind == "pandas-on-spark":
            value, kind = value.to_spark(), "pyspark"
        if kind == "pyspark" and getattr(value, "isStreaming", False):
            raise ValueError(
                "display cannot show a streaming DataFrame. Write it to a memory sink (df.writeStream.format('memory')"
                ".queryName('name').start()) and display spark.table('name')."
            )
        made = spark_table(value) if kind == "pyspark" else pandas_table(value)
        publish({TABLE_MIME: made, "text/plain": str(value)})

    def display(*values: Any, **options: Any) -> None:
        """Show values: Spark and pandas DataFrames as tables (the first 1000 rows), anything else as IPython does."""
        for value in values:
            if _kind(value):
                table(value)
            else:
                fallback(value, **options)
                if figures is not None:
                    figures.displayed(value)

    return display
