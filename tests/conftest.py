"""Fixtures that every room uses."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

from brickyard.store.store import Store
from tests.support import durations, golden
from tests.support.databases import KINDS, empty_sqlite
from tests.support.depth import ALL, DEEP
from tests.support.patience import Stopwatch
from tests.support.postgres import Postgres, PostgresMissing
from tests.support.runtimes import OTHER_LINES, SPARK_3

if TYPE_CHECKING:
    from tests.support.server import Server

# How long an example takes depends on what else the machine does. Speed is measured by the benchmarks. A plain run draws the same
# examples each time, so that nobody's change fails by what it did not touch; `./dev test --all` and deep runs look for new ones.
hypothesis.settings.register_profile(
    "ours", deadline=None, derandomize=not (ALL or DEEP), suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("ours")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A test run in a shell's background ignores it, and so would all that is started here, also what tests interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Where the database is what is tested, each test runs on both kinds. Single tests elsewhere have `both_databases`."""
    if "database" in metafunc.fixturenames and metafunc.definition.path.parent.name in ("store", "reconcile", "stateful"):
        metafunc.parametrize("database", KINDS)


@pytest.hookimpl(tryfirst=True)  # before `-m` selects
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests on every line of Spark, of something that no line does in its own way, run on one; deep runs have them on all. Those
    on other lines than the first are `extended` ones."""
    for item in items:
        if item.get_closest_marker("spark") and any(line in item.name for line in OTHER_LINES):
            item.add_marker("extended")
    if golden.REWRITE in os.environ:
        items[:] = [item for item in items if "golden" in getattr(item, "fixturenames", ())]
    if DEEP:
        return
    again = [item for item in items if item.get_closest_marker("any_runtime") and SPARK_3 in item.name]
    if again:
        config.hook.pytest_deselected(items=again)
        items[:] = [item for item in items if item not in set(again)]


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """What runs tests and fixtures that are coroutines: each test has an event loop to itself."""
    return "asyncio"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """A test over a minute fails, unless tests/durations.json says why it takes so long."""
    watch = Stopwatch()
    answer = yield
    if isinstance(said := getattr(item, "funcargs", {}).get("golden"), golden.Golden):
        said.end()
    durations.check(f"{item.location[0]}::{getattr(item, 'originalname', item.name)}", watch.took_s)
    return answer


class FailuresAtOnce:
    """Tells each failure when it happens: a run that is cut off has said what failed."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            why = report.longreprtext.splitlines()[-8:]
            self._terminal.write_line("\n".join(("", f"FAILED {report.nodeid} ({report.when})", *why)))


@pytest.hookimpl(trylast=True)  # when the terminal's reporter is there
def pytest_configure(config: pytest.Config) -> None:
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and not os.environ.get("PYTEST_XDIST_WORKER"):
        config.pluginmanager.register(FailuresAtOnce(terminal))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    durations.note(report)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if not os.environ.get("PYTEST_XDIST_WORKER"):
        durations.keep()


@pytest.fixture(name="golden")
def golden_messages(request: pytest.FixtureRequest) -> golden.Golden:
    """What this test makes the product say, against tests/golden/messages.json."""
    file, _, test = request.node.nodeid.partition("::")
    return golden.Golden(file, test)


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """A PostgreSQL server of this test run's own; skipped only where none can be had, and never in CI."""
    try:
        server = Postgres.start(tmp_path_factory.mktemp("postgres"))
    except PostgresMissing as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))
    try:
        yield server
    finally:
        server.end()


@pytest.fixture
def database() -> str:
    """The kind of database of `store`, `store_url` and `bare_url`: SQLite, unless it is parametrised."""
    return "sqlite"


@pytest.fixture
def bare_url(database: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database without a schema."""
    if database == "sqlite":
        return f"sqlite:///{tmp_path / 'bare.db'}"
    server: Postgres = request.getfixturevalue("postgres")
    return server.new_database()


@pytest.fixture
def store_url(database: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database with the newest schema."""
    if database == "sqlite":
        return empty_sqlite(tmp_path / "test.db")
    server: Postgres = request.getfixturevalue("postgres")
    return server.new_database(template=server.migrated)


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    """An empty store."""
    opened = Store.open(store_url)
    try:
        yield opened
    finally:
        opened.close()


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server on the simulated provider, with the settings that the module's `SERVER` names."""
    from tests.support.server import Server  # noqa: PLC0415 - only tests with a server take the time to import it

    settings: dict[str, Any] = getattr(request.module, "SERVER", {})
    with Server.running(tmp_path_factory.mktemp("workspace"), provider="simulated", **settings) as running:
        yield running
