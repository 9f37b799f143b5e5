"""A SQL client in a process of its own: Databricks' connector, or PySpark over Spark Connect, in an interpreter that has it.

It reads the names of works from its standard input, one a line, and answers each with a line of JSON. `Client` is the other end.
"""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

SMALL, SMALL_TIMES = "SELECT 1 AS a", 40
SESSIONS, STATEMENTS = 200, 2
ROWS, COLUMNS, PARTITIONS = 15_625_000, 8, 64  # of eight bytes: 1 GB, just below spark.driver.maxResultSize
_HASHES = ", ".join(f"xxhash64(id, {at}) AS c{at}" for at in range(COLUMNS))
LARGE = f"SELECT {_HASHES} FROM range(0, {ROWS}, 1, {PARTITIONS})"  # noqa: S608 - numbers of our own


class Client:
    """One that runs. `argv` is how an interpreter is called, and `given` which client it is, and where it connects."""

    def __init__(self, python: str, *given: str) -> None:
        command = [python, str(Path(__file__)), *given]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, work: str) -> Any:
        """What the work answers. Raises RuntimeError if it fails."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{work}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{work} failed")
        return json.loads(line)

    def close(self) -> None:
        """Ends it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


class Session(Protocol):
    """One session with a cluster."""

    def rows(self, statement: str) -> list[tuple[Any, ...]]: ...
    def arrow(self, statement: str) -> Any: ...
    def close(self) -> None: ...


class _Connector:
    """Databricks' connector."""

    def __init__(self, url: str, token: str) -> None:
        from databricks import sql  # noqa: PLC0415 - where it is installed

        host, _, path = url.removeprefix("http://").partition("/")
        self._connection = sql.connect(host, f"/{path}", access_token=token, _connection_uri=url, enable_telemetry=False)
        self._cursor = self._connection.cursor()

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self._cursor.execute(statement).fetchall()]

    def arrow(self, statement: str) -> Any:
        return self._cursor.execute(statement).fetchall_arrow()

    def close(self) -> None:
        self._connection.close()


class _PySpark:
    """Spark Connect's client."""

    def __init__(self, url: str) -> None:
        from pyspark.sql import SparkSession  # noqa: PLC0415 - where it is installed

        self._spark = SparkSession.builder.remote(url).create()

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self._spark.sql(statement).collect()]

    def arrow(self, statement: str) -> Any:
        return self._spark.sql(statement).toArrow()

    def close(self) -> None:
        self._spark.stop()


def connect(made: Callable[[], Session]) -> list[float]:
    """Seconds until a session is open, and of its first statement; and of reading the machine's certificates, which the connector
    does with every connection, encrypted or not."""
    began = time.perf_counter()
    ssl.create_default_context()
    read = time.perf_counter()
    session = made()
    opened = time.perf_counter()
    check(session)
    answered = time.perf_counter()
    session.close()
    return [opened - read, answered - opened, read - began]


def small(session: Session) -> list[float]:
    """Seconds of each of many small statements in an open session."""
    found = []
    for _ in range(SMALL_TIMES):
        began = time.perf_counter()
        check(session)
        found.append(time.perf_counter() - began)
    return found


def large(session: Session) -> list[float]:
    """Seconds of a large result, until the client has all of it as Arrow, and its bytes."""
    began = time.perf_counter()
    table = session.arrow(LARGE)
    took = time.perf_counter() - began
    if table.num_rows != ROWS:
        raise RuntimeError(f"{table.num_rows} rows in place of {ROWS}")
    return [took, table.nbytes]


def crowd(made: Callable[[], Session]) -> list[float]:
    """Seconds of many sessions at once, from the first one's begin to the last one's end, and of each of their statements."""

    def one(number: int) -> list[float]:
        session, found = made(), []
        for each in range(STATEMENTS):
            began = time.perf_counter()
            if session.rows(f"SELECT {number} AS a, {each} AS b") != [(number, each)]:
                raise RuntimeError("a session has got another one's answer")
            found.append(time.perf_counter() - began)
        session.close()
        return found

    with ThreadPoolExecutor(SESSIONS) as pool:
        began = time.perf_counter()
        each = list(pool.map(one, range(SESSIONS)))
        return [time.perf_counter() - began, *(took for session in each for took in session)]


def check(session: Session) -> None:
    """One small statement. Raises RuntimeError when its answer is wrong."""
    if session.rows(SMALL) != [(1,)]:
        raise RuntimeError("a wrong answer")


def main() -> None:
    kind, *given = sys.argv[1:]

    def made() -> Session:
        return _Connector(*given) if kind == "connector" else _PySpark(*given)

    session = made()
    for line in sys.stdin:
        work = line.strip()
        found = {"connect": connect, "crowd": crowd}[work](made) if work in ("connect", "crowd") else (
            {"small": small, "large": large}[work](session)
        )  # fmt: skip
        print(json.dumps(found), flush=True)
    session.close()


if __name__ == "__main__":
    main()
