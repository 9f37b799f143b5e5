"""`dbutils.data.summarize`: statistics of every column, computed in one job."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ..wire import TABLE_MIME
from .display import plain

_NUMBERS = ("byte", "short", "integer", "long", "float", "double", "decimal")
_ORDERED = (*_NUMBERS, "string", "date", "timestamp", "timestamp_ntz", "boolean")
_COLUMNS = ("column", "type", "count", "missing", "distinct", "mean", "stddev", "min", "25%", "50%", "75%", "max")
_SHARES = (0.25, 0.5, 0.75)


def make_summarize(spark: Any, publish: Callable[[dict[str, Any]], None]) -> Callable[[Any, bool], None]:
    """Makes the function. `publish` sends a MIME bundle."""

    def summarize(frame: Any, precise: bool) -> None:
        if type(frame).__module__.partition(".")[0] == "pandas":
            frame = spark.createDataFrame(frame)
        elif hasattr(frame, "to_spark"):
            frame = frame.to_spark()
        if not hasattr(frame, "schema"):
            raise TypeError(f"dbutils.data.summarize takes a DataFrame of Spark or pandas, not {type(frame).__name__}.")
        rows = _rows(frame, precise)
        schema = [
            {"name": name, "type": json.dumps("string" if name in ("column", "type") else "double"), "metadata": "{}"}
            if name not in ("min", "max", "25%", "50%", "75%")
            else {"name": name, "type": json.dumps("string"), "metadata": "{}"}
            for name in _COLUMNS
        ]
        text = "\n".join("\t".join("" if value is None else str(value) for value in row) for row in [list(_COLUMNS), *rows])
        publish({TABLE_MIME: {"schema": schema, "data": rows, "truncated": False}, "text/plain": text})

    return summarize


def _rows(frame: Any, precise: bool) -> list[list[Any]]:
    from pyspark.sql import functions as f

    fields = frame.schema.fields
    frame = frame.toDF(*(f"c{number}" for number in range(len(fields))))  # names with dots, and names that stand twice
    wanted = [f.count(f.lit(1)).alias("rows")]
    for number, field in enumerate(fields):
        kind, name = field.dataType.typeName(), f"c{number}"
        column = f.col(name)
        wanted.append(f.count(column).alias(f"{name}_count"))
        if kind in _ORDERED:
            distinct = f.countDistinct(column) if precise else f.approx_count_distinct(column)
            wanted += [distinct.alias(f"{name}_distinct"), f.min(column).alias(f"{name}_min"), f.max(column).alias(f"{name}_max")]
        if kind in _NUMBERS:
            function = "percentile" if precise else "percentile_approx"
            shares = f.expr(f"{function}({name}, array({', '.join(map(str, _SHARES))}))")
            wanted += [
                f.mean(column).alias(f"{name}_mean"),
                f.stddev(column).alias(f"{name}_stddev"),
                shares.alias(f"{name}_shares"),
            ]
    found = frame.agg(*wanted).collect()[0].asDict()

    def row(number: int, field: Any) -> list[Any]:
        def of(what: str) -> Any:
            return plain(found.get(f"c{number}_{what}"))

        def text(value: Any) -> str | None:
            return None if value is None else str(plain(value))

        shares = found.get(f"c{number}_shares") or (None, None, None)
        count = found[f"c{number}_count"]
        return [
            field.name, field.dataType.simpleString(), count, found["rows"] - count, of("distinct"), of("mean"), of("stddev"),
            text(of("min")), *(text(each) for each in shares), text(of("max")),
        ]  # fmt: skip

    return [row(number, field) for number, field in enumerate(fields)]
