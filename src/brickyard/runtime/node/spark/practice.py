"""What a warm JVM does while it waits for a cluster: the work of usual first commands, without any user's data.

Classes are loaded, methods compiled, and code is generated as it will be for users. A cluster that comes does not wait for the
rest: it is cut off, at the latest after the statement that runs. Nothing of it remains, cut off or not. Nobody waits for it, so
it gives way while the machine's processors are busy.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from py4j.protocol import Py4JError

from ..jvm.errors import error_text
from ..jvm.management import trim_native_heap
from ..jvm.scala import Scala
from ..protocol import Log
from . import usual
from .driver import Driver
from .pauses import Pauses

if TYPE_CHECKING:
    from ..documents import ManifestDocument

CANCEL_S = 0.05  # between two attempts: a statement that is still planned has no job yet, and begins one later
FETCH_S = 10.0  # for rows that come back, of which there are few
# What the workspace's catalog and files need. It does not come from the archives, which are made without it.
OURS = (
    "AtomicFiles", "AtomicMoves", "BoundedPorts", "CarefulFiles", "CatalogChannel", "CatalogCodec", "CatalogFace", "CatalogPaper",
    "CatalogRows", "CommitLocks", "CommitRecords", "KeptCommit", "NodeFiles", "Overwrites", "SessionFiles", "SharedCatalog",
)  # fmt: skip
# Numbers of statements (usual.py): what users write first is compiled anew each time, by methods that are compiled by then.
NUMBERS = range(8, 12)
ROWS = "id,name\n1,one\n2,two\n"


class Work(Protocol):
    """Something that takes a while."""

    def run(self) -> None:
        """Raises Py4JError, OSError."""
        ...

    def cut(self) -> None:
        """Has `run` return soon. Called again and again until it has. Raises Py4JError, OSError."""
        ...


class Practice:
    """One practice. `run` is for one thread, `cut` for any other."""

    def __init__(
        self,
        scala: Scala,
        conf: Mapping[str, str],
        *,
        manifest: ManifestDocument,
        node_dir: Path,
        connects: bool,
        log: Log,
        pauses: Pauses,
        before: Work | None = None,
    ) -> None:
        """`conf`: of a driver with local threads. `connects`: whether it has Spark Connect. `before`:
        work to do first."""
        # With local[...], Spark makes its own secret, keeps it for as long as the JVM lives, and prefers it to any secret in a
        # conf: workers would be rejected.
        self._conf = {**conf, "spark.authenticate": "false"}
        self._scala, self._manifest, self._pauses = scala, manifest, pauses
        self._node_dir = node_dir
        self._files = node_dir / "tmp" / "practice"
        self._connects = connects
        self._before = before
        self._log = log
        self._cut = threading.Event()
        self._over = threading.Event()
        self._driver: Driver | None = None

    def run(self) -> None:
        """Practises until nothing is left or it is cut off. What fails only costs the next user time."""
        try:
            if self._before is not None and not self._cut.is_set():
                self._try(self._before.run)
            if not self._cut.is_set():
                self._try(self._practise)
            self._try(self._forget)
        finally:
            self._log.log("first commands were practised" + (", until a cluster came" if self._cut.is_set() else ""))
            self._over.set()

    def _try(self, work: Callable[[], Any]) -> None:
        """Does something, which may fail: a version of Spark may lack it, or the JVM may be ending."""
        try:
            work()
        except (Py4JError, OSError) as error:
            if not self._cut.is_set():
                self._log.log(f"what was to be practised failed: {error_text(error).splitlines()[0]}")

    def cut(self) -> None:
        """Ends it. Returns when nothing of it is left."""
        self._cut.set()
        while not self._over.is_set():
            with contextlib.suppress(Py4JError, OSError):
                self._cancel()
            self._over.wait(CANCEL_S)

    def _cancel(self) -> None:
        """Cancels what runs now."""
        driver = self._driver
        if driver is not None:
            driver.cancel_all()
        elif self._before is not None:
            self._before.cut()

    def _practise(self) -> None:
        self._driver = driver = Driver(self._scala, conf=self._conf)
        try:
            for piece in self._pauses.between(self._pieces(driver), self._cut):
                self._try(piece)
        finally:
            self._driver = None
            driver.stop()
            shutil.rmtree(str(self._files), ignore_errors=True)
            forget_events(self._node_dir)

    def _pieces(self, driver: Driver) -> Iterator[Callable[[], Any]]:
        yield self._load_ours
        yield driver.warm_up
        yield driver.first_job
        session = self._scala.session().newSession()
        yield lambda: self._show(session.sql(usual.aggregation(7)))
        yield lambda: self._fetch(session.sql(usual.aggregation(7)).collectToPython())
        yield lambda: self._show(session.sql(usual.join(5)))
        yield lambda: self._read_rows(session)
        if self._connects:
            yield driver.connect.open
        yield lambda: self._fetch(session.sql(usual.aggregation(7)).collectToPython())
        yield driver.stages
        yield driver.executors
        for number in NUMBERS:
            yield partial(self._fetch_frame, session, number)
            yield partial(self._fetch_sql, session, usual.aggregation(number))
            yield partial(self._fetch_sql, session, usual.join(number))
        yield lambda: usual.know_function(self._scala, session, self._manifest)
        yield lambda: self._fetch_sql(session, usual.calls(1))

    def _fetch_sql(self, session: Any, statement: str) -> None:
        self._fetch(session.sql(statement).collectToPython())

    def _fetch_frame(self, session: Any, number: int) -> None:
        self._fetch(usual.frame(self._scala, session, number).collectToPython())

    def _load_ours(self) -> None:
        loader = self._scala.jvm.java.lang.Thread.currentThread().getContextClassLoader()
        older = str(self._scala.java("org.apache.spark.package").SPARK_VERSION()).startswith("3.4.")
        for name in OURS:
            if older and name == "SessionFiles":
                continue  # Spark 3.4 has no artifacts of sessions
            self._scala.java("java.lang.Class").forName(f"brickyard.{name}", True, loader)

    def _show(self, frame: Any) -> None:
        frame.showString(20, 20, False)
        self._scala.java("org.apache.spark.sql.api.python.PythonSQLUtils").explainString(frame.queryExecution(), "simple")

    def _fetch(self, where: Any) -> None:
        """Takes rows as PySpark does: from a port, with a secret."""
        if not str(where[0]).isdigit():
            return  # a socket of another kind, for which nothing needs to be practised: its rows come in the same form
        secret = str(where[1]).encode()
        with socket.create_connection(("127.0.0.1", int(where[0])), timeout=FETCH_S) as rows:
            rows.sendall(struct.pack(">i", len(secret)) + secret)
            while rows.recv(1 << 16):
                pass

    def _read_rows(self, session: Any) -> None:
        """Reads a file as a first command often does."""
        self._files.mkdir(parents=True, exist_ok=True)
        rows = self._files / "rows.csv"
        rows.write_text(ROWS)
        read = session.read().option("header", "true").option("inferSchema", "true").csv(f"file:{rows}")
        read.filter("id > 1").showString(20, 20, False)

    def _forget(self) -> None:
        """Returns memory that this took: what it left is garbage, and the heap may shrink while nothing happens."""
        jvm = self._scala.jvm
        self._scala.java("org.apache.hadoop.fs.FileSystem").closeAll()  # they keep the conf; the next user has another
        sessions = self._scala.sessions
        sessions.clearActiveSession()
        sessions.clearDefaultSession()
        for _ in range(0 if self._cut.is_set() else 2):  # buffers outside the heap are freed with their owners
            jvm.System.gc()
            jvm.System.runFinalization()
        if not self._cut.is_set():
            try:
                trim_native_heap(self._scala)
            except Py4JError as error:
                self._log.log(f"Java keeps memory that it does not use: {error_text(error).splitlines()[0]}")


def forget_events(node_dir: Path) -> None:
    """Removes what Spark has written of its own runs: it would appear as runs of the next cluster. Raises OSError."""
    for events in (node_dir / "logs" / "eventlog").iterdir():
        events.unlink()
