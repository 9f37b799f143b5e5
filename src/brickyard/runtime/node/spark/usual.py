"""What users' first commands usually do, on rows of nobody's, for warm nodes to do it before (practice.py, rehearsal.py).

Every form takes a number. With another number Spark generates other code of it, which is compiled anew, as a user's will be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..documents import ManifestDocument
    from ..jvm.scala import Scala

BATCHED = 100  # PySpark's number of the usual kind of Python function (PythonEvalType.SQL_BATCHED_UDF)
# The builtin `int` and the type of its results, as PySpark pickles a function.
PICKLED = b"\x80\x02(cbuiltins\nint\ncpyspark.sql.types\nLongType\n)Rt."
FUNCTION, MADE = "usual_function", "org.apache.spark.sql.execution.python.UserDefinedPythonFunction"


def aggregation(number: int, parts: int = 2) -> str:
    """A scan of so many parts, an aggregation over a shuffle, a sort."""
    rows = (
        "SELECT id % {0} AS k, count(*) AS n, sum(id) AS s FROM range(0, 1000, 1, {1}) WHERE id > 3 GROUP BY id % {0} ORDER BY k"
    )
    return rows.format(number, parts)


def join(number: int, parts: int = 2) -> str:
    """A join, an aggregation, the first rows of a sort."""
    rows = "SELECT a.id % {0} AS k, avg(b.id) AS m, max(a.id) AS x FROM range(0, 1000, 1, {1}) a JOIN range(0, 100, 1, {1}) b"
    return rows.format(number, parts) + " ON a.id = b.id GROUP BY 1 ORDER BY 2 DESC LIMIT 3"


def calls(number: int) -> str:
    """Calls of the Python function."""
    return f"SELECT {FUNCTION}(id) + {number} AS n FROM range(0, 10, 1, 2)"  # noqa: S608 - texts of our own


def frame(scala: Scala, session: Any, number: int) -> Any:
    """Returns a data frame that is made of calls rather than SQL. Raises Py4JError."""
    functions, none = scala.java("org.apache.spark.sql.functions"), scala.texts()
    rows = session.range(0, 1000, 1, 2).withColumn("k", functions.expr(f"concat('k', id % {number})"))
    rows = rows.filter(functions.col("id").gt(number)).select(scala.columns(functions.col("k"), functions.expr("id * 2 AS n")))
    means = rows.groupBy("k", none).agg(functions.avg("n").alias("mean"), scala.columns(functions.min("n").alias("least")))
    return means.sort("k", none)


def know_function(scala: Scala, session: Any, manifest: ManifestDocument) -> None:
    """Makes a Python function known to the session. Raises Py4JError."""
    jvm = scala.jvm
    python = jvm.java.lang.System.getenv("PYSPARK_PYTHON")  # as kernels name it
    version = ".".join(manifest["python_version"].split(".")[:2])
    nothing, none = jvm.java.util.HashMap(), jvm.java.util.ArrayList()
    function = scala.java("org.apache.spark.api.python.SimplePythonFunction")(
        bytearray(PICKLED), nothing, none, python, version, none, None
    )
    kind = scala.java("org.apache.spark.sql.types.DataTypes").LongType
    # Newer versions also take lists of what they have translated into expressions.
    lists = [none] * (int(jvm.java.lang.Class.forName(MADE).getConstructors()[0].getParameterCount()) - 5)
    made = scala.java(MADE)(FUNCTION, function, kind, BATCHED, True, *lists)
    session.udf().registerPython(FUNCTION, made)
