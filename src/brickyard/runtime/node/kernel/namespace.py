"""What a notebook's namespace has of Spark."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

_FRAMES = ("pyspark.sql.dataframe", "pyspark.sql.connect.dataframe")


def spark_names(spark: Any, context: Any, display: Callable[..., None]) -> dict[str, Any]:
    """Returns the names, and gives DataFrames their `display()`."""
    from pyspark.sql.functions import udf

    def show(self: Any, *_args: Any, **_options: Any) -> None:
        """Shows the DataFrame as a table, as display(df) does."""
        display(self)

    for name in _FRAMES:
        if name in sys.modules:  # the other kind is not used here
            sys.modules[name].DataFrame.display = show
    names = {"spark": spark, "sc": context, "sql": spark.sql, "table": spark.table, "udf": udf}
    if hasattr(spark, "_jsparkSession"):  # not a session of Spark Connect, which has no SQLContext
        from pyspark.sql.context import SQLContext

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it is deprecated, and old notebooks use it
            names["sqlContext"] = SQLContext(context, spark)
    return names
