"""The database goes away and comes back, and its disk fills up: what clients, loops and the log see of it."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
import requests
from sqlalchemy import event, make_url
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as NoConnection
from structlog.testing import capture_logs

from brickyard.domain.errors import DatabaseAway, DatabaseFull, DatabaseTrouble
from brickyard.nodes.tokens import InstanceTokens
from brickyard.providers.nodetypes import cloud_types
from brickyard.providers.simulated import SimulatedProvider
from brickyard.store import postgres as postgres_module
from brickyard.store import store as store_module
from brickyard.store.store import Store
from brickyard.store.trouble import trouble_of
from brickyard.store.tx import Tx
from tests.support.golden import Golden
from tests.support.patience import PATIENCE_S, Stopwatch, until
from tests.support.postgres import Postgres, PostgresMissing
from tests.support.server import TOKEN, WORKSPACE_KEY, Server

LARGE = "x" * 200_000
TOKENS = InstanceTokens(key=WORKSPACE_KEY)


class Room:
    """A bound on the pages of a SQLite database, as a full disk would be one: SQLite's own SQLITE_FULL."""

    def __init__(self, store: Store) -> None:
        self.full = False

        @event.listens_for(store._engine, "checkout")
        def _bound(raw: Any, *_: Any) -> None:
            raw.execute(f"PRAGMA max_page_count = {1 if self.full else 2**30}")  # never less than it has already


@pytest.fixture
def postgres_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    try:
        server = Postgres.start(tmp_path_factory.mktemp("away"))
    except PostgresMissing as missing:
        pytest.skip(str(missing))
    yield server
    server.end()


def get(server: Server, path: str) -> requests.Response:
    return requests.get(server.url + path, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=PATIENCE_S)


def agent_poll(server: Server, instance_id: str) -> requests.Response:
    headers = {"Authorization": f"Bearer {TOKENS.agent_token(instance_id)}"}
    url = f"{server.url}/agent/v1/assignment?instance_id={instance_id}&have=0&wait=0"
    return requests.get(url, headers=headers, timeout=PATIENCE_S)


def create(server: Server, name: str) -> requests.Response:
    body: Any = {"cluster_name": name, "spark_version": "17.3.x-scala2.13", "node_type_id": "i3.xlarge", "num_workers": 1}
    headers = {"Authorization": f"Bearer {TOKEN}"}
    return requests.post(f"{server.url}/api/2.1/clusters/create", json=body, headers=headers, timeout=PATIENCE_S)


def state(server: Server, cluster_id: str) -> str:
    answer = get(server, f"/api/2.1/clusters/get?cluster_id={cluster_id}")
    return str(answer.json().get("state"))


def fill(store: Store) -> None:
    """Use the room that the database keeps for itself."""

    def write(number: int) -> None:
        store.write_sync(lambda tx: tx.set_meta(f"fill{number}", LARGE))

    with pytest.raises(DatabaseFull):
        for number in range(1000):
            write(number)


def episodes(logs: Any) -> list[str]:
    """What was logged at all, but for what is expected of every server."""
    return [entry["event"] for entry in logs if entry["log_level"] in ("warning", "error") or "database" in entry["event"]]


def test_a_database_that_is_away_is_told_and_waited_for(postgres_of_its_own: Postgres, tmp_path: Path, golden: Golden) -> None:
    database = postgres_of_its_own.new_database()
    with capture_logs() as logs, Server.running(tmp_path, provider="simulated", database_url=database) as server:
        cluster_id = create(server, "before").json()["cluster_id"]
        until(lambda: state(server, cluster_id) == "RUNNING", "the cluster runs")
        postgres_of_its_own.stop()
        until(lambda: get(server, "/readyz").status_code == 503, "the server says that it is not ready")
        for _ in range(3):
            for refused in (get(server, "/api/2.1/clusters/list"), create(server, "meanwhile"), get(server, "/readyz")):
                assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        answer = create(server, "meanwhile").json()
        assert answer == {"error_code": "TEMPORARILY_UNAVAILABLE", "message": answer["message"]}
        golden(answer["message"])
        assert "database" in get(server, "/readyz").json()["reason"]
        proven = agent_poll(server, "i-anything")  # an agent learns that its server is there, and so its node outlives the outage
        assert (proven.status_code, proven.json()["server_token"]) == (503, TOKENS.server_token("i-anything"))
        assert get(server, "/healthz").status_code == 200
        assert "brickyard_database_up 0.0" in get(server, "/metrics").text
        postgres_of_its_own.launch()
        until(lambda: get(server, "/readyz").status_code == 200, "the server is ready again")
        assert state(server, cluster_id) == "RUNNING"
        after = create(server, "after").json()["cluster_id"]
        until(lambda: state(server, after) == "RUNNING", "the loops go on")
        assert "brickyard_database_up 1.0" in get(server, "/metrics").text
        assert episodes(logs) == ["database_unavailable", "database_available"]


def test_a_database_that_hangs_is_told_and_waited_for(
    postgres_of_its_own: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connections stay, so that only the clock can tell."""
    monkeypatch.setattr(postgres_module, "ANSWER_S", 1.0)
    monkeypatch.setattr(store_module, "WAIT_S", 1.0)
    monkeypatch.setattr(store_module, "HUNG_S", 0.5)
    database = postgres_of_its_own.new_database()
    with Server.running(tmp_path, provider="simulated", database_url=database) as server:
        cluster_id = create(server, "before").json()["cluster_id"]
        until(lambda: state(server, cluster_id) == "RUNNING", "the cluster runs")
        with postgres_of_its_own.hung(), ThreadPoolExecutor(40) as clients:
            for _ in range(2):
                asked = [clients.submit(get, server, "/api/2.1/clusters/list") for _ in range(20)]
                asked += [clients.submit(create, server, "meanwhile") for _ in range(20)]
                for refused in (each.result(PATIENCE_S) for each in asked):
                    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1"), refused.text
                    assert refused.json()["error_code"] == "TEMPORARILY_UNAVAILABLE"
                assert get(server, "/readyz").status_code == 503
                assert get(server, "/healthz").status_code == 200
        until(lambda: get(server, "/readyz").status_code == 200, "the server is ready again")
        after = create(server, "after").json()["cluster_id"]
        until(lambda: state(server, after) == "RUNNING", "the loops go on")


def test_locks_that_are_held_for_too_long_are_told_and_waited_for(postgres: Postgres, tmp_path: Path) -> None:
    """With an operator's `lock_timeout`, of any statement, the check of the database among them. Afterwards a node that dies is
    noticed, as before."""
    database = postgres.new_database()
    name = make_url(database).database
    with psycopg.connect(database, autocommit=True) as operator:
        operator.execute(f'ALTER DATABASE "{name}" SET lock_timeout = 100')
        nodes = SimulatedProvider(node_types=cloud_types())
        with Server.running(tmp_path, instances=nodes, database_url=database) as server:
            cluster_id = create(server, "before").json()["cluster_id"]
            until(lambda: state(server, cluster_id) == "RUNNING", "the cluster runs")
            tables = [
                row[0] for row in operator.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
            ]
            with operator.transaction():
                operator.execute(f"LOCK TABLE {', '.join(tables)} IN ACCESS EXCLUSIVE MODE")
                for _ in range(3):
                    for refused in (get(server, "/api/2.1/clusters/list"), create(server, "meanwhile")):
                        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1"), refused.text
                until(lambda: get(server, "/readyz").status_code == 503, "the server says that it is not ready")
                time.sleep(1.5)  # long enough for every loop to have met it
            until(lambda: get(server, "/readyz").status_code == 200, "the server is ready again")
            (driver,) = server.store.read_sync(lambda tx: tx.instances.of_cluster(cluster_id))[:1]
            nodes.kill(driver.instance_id)
            until(lambda: state(server, cluster_id) != "RUNNING", "the loss of a node is noticed")


PASSES = (
    "08006",
    "25006",
    "25P03",
    "28P01",
    "3D000",
    "40001",
    "40P01",
    "42501",
    "53200",
    "53300",
    "55P03",
    "57014",
    "57P01",
    "XX001",
)


@pytest.mark.parametrize("code", PASSES)
def test_what_passes_by_itself_or_by_an_operator_is_trouble(code: str) -> None:
    assert isinstance(trouble_of(failed(code)), DatabaseAway)


@pytest.mark.parametrize("code", ["22012", "23505", "25P02", "42601", "42P01"])
def test_what_only_we_can_mend_is_none(code: str) -> None:
    assert trouble_of(failed(code)) is None


def failed(code: str) -> Exception:
    """SQLAlchemy's error for a code of PostgreSQL's."""
    error = psycopg.errors.lookup(code)("reason")
    wrapped = DBAPIError.instance(
        "SELECT 1", None, error, psycopg.Error, dialect=make_url("postgresql+psycopg://").get_dialect()()
    )
    assert isinstance(wrapped, DBAPIError)
    return wrapped


def test_a_database_that_another_program_locks_is_told_soon_and_waited_for(tmp_path: Path) -> None:
    """By every call that writes, however much the loops want to write meanwhile."""
    with Server.running(tmp_path, provider="simulated") as server:
        before = [create(server, f"before-{number}").json()["cluster_id"] for number in range(10)]
        until(lambda: all(state(server, each) == "RUNNING" for each in before), "the clusters run")
        handle = post(server, "/api/2.0/dbfs/create", {"path": "/a"}).json()["handle"]
        other = sqlite3.connect(tmp_path / "brickyard.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        calls = [
            lambda: create(server, "meanwhile"),
            lambda: post(server, "/api/2.1/clusters/delete", {"cluster_id": before[0]}),
            lambda: post(server, "/api/2.0/dbfs/mkdirs", {"path": "/b"}),
            lambda: post(server, "/api/2.0/dbfs/add-block", {"handle": handle, "data": "QQ=="}),
            lambda: post(server, "/api/2.0/token/create", {"comment": "meanwhile"}),
        ]
        with contextlib.closing(other), ThreadPoolExecutor(len(calls)) as clients:
            for _ in range(2):  # the second time the trouble is known
                watch = Stopwatch()
                for answer in [each.result(PATIENCE_S) for each in [clients.submit(call) for call in calls]]:
                    assert answer.ok or answer.status_code == 503, answer.text
                assert watch.took_s < 15, "5 s on a machine that has nothing else to do"
        until(lambda: get(server, "/readyz").status_code == 200, "the server is ready again")
        assert create(server, "after").ok


def post(server: Server, path: str, body: Any) -> requests.Response:
    return requests.post(server.url + path, json=body, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=PATIENCE_S)


def test_a_check_that_fails_in_a_way_of_its_own_is_trouble_too(store: Store) -> None:
    """Every loop waits for the check: it raises nothing."""
    store.write_sync(lambda tx: tx._connection.exec_driver_sql("DROP TABLE meta"))
    assert isinstance(asyncio.run(store.check()), DatabaseAway)


def test_a_full_disk_is_told_reads_go_on_and_room_cures_it(tmp_path: Path) -> None:
    with capture_logs() as logs, Server.running(tmp_path, provider="simulated") as server:
        room = Room(server.store)
        cluster_id = create(server, "before").json()["cluster_id"]
        until(lambda: state(server, cluster_id) == "RUNNING", "the cluster runs")
        room.full = True
        fill(server.store)
        answers = (create(server, "x" * 90) for _ in range(10_000))  # what is left of the last page
        refused = next(each for each in answers if not each.ok and each.status_code != 429)  # 429: the machine is busy
        assert (refused.status_code, refused.json()["error_code"]) == (507, "RESOURCE_EXHAUSTED")
        assert "disk" in refused.json()["message"] and "Free space" in refused.json()["message"]
        assert get(server, "/readyz").status_code == 503
        assert "disk" in get(server, "/readyz").json()["reason"]
        assert state(server, cluster_id) == "RUNNING"
        room.full = False
        until(lambda: get(server, "/readyz").status_code == 200, "there is room")
        after = create(server, "after").json()["cluster_id"]
        until(lambda: state(server, after) == "RUNNING", "the loops go on")
        assert episodes(logs) == ["database_unavailable", "database_available"]


def test_units_that_share_a_full_transaction_all_hear_of_it(tmp_path: Path) -> None:
    """SQLite may roll back by itself: no savepoint is left to return to."""
    store = Store.open(f"sqlite:///{tmp_path / 'full.db'}")
    room = Room(store)
    room.full = True

    def write(number: int) -> Any:
        return store.write(lambda tx: tx.set_meta(f"k{number}", LARGE))

    async def scenario() -> list[Any]:
        return await asyncio.gather(*(write(number) for number in range(40)), return_exceptions=True)

    try:
        assert {type(outcome) for outcome in asyncio.run(scenario())} == {DatabaseFull}
        room.full = False
        assert asyncio.run(scenario()) == [None] * 40
        assert store.read_sync(lambda tx: tx.get_meta("k39")) == LARGE
    finally:
        store.close()


def test_a_bug_of_a_unit_is_not_trouble(store: Store) -> None:
    def twice(tx: Tx) -> None:
        tx._connection.exec_driver_sql("INSERT INTO meta (key, value) VALUES ('a', 'b')")
        tx._connection.exec_driver_sql("INSERT INTO meta (key, value) VALUES ('a', 'b')")

    with pytest.raises(IntegrityError):
        store.write_sync(twice)
    with pytest.raises(DBAPIError) as missing:
        store.read_sync(lambda tx: tx._connection.exec_driver_sql("SELECT * FROM nothing"))
    assert not isinstance(missing.value, DatabaseTrouble)
    assert asyncio.run(store.check()) is None


def test_a_file_that_is_no_database_is_trouble(tmp_path: Path) -> None:
    path = tmp_path / "not.db"
    path.write_bytes(b"not a database" * 1000)
    with pytest.raises(sqlite3.DatabaseError) as error:
        sqlite3.connect(path).execute("SELECT * FROM sqlite_master")
    assert isinstance(trouble_of(error.value), DatabaseAway)
    assert isinstance(trouble_of(NoConnection("QueuePool limit")), DatabaseAway)
    assert trouble_of(ValueError("x")) is None


@pytest.mark.parametrize("how", ["removed", "renamed", "replaced", "directory", "log"])
async def test_nothing_is_committed_to_a_file_that_nobody_will_find(tmp_path: Path, how: str) -> None:
    place = tmp_path / "data"
    place.mkdir()
    file, log = place / "brickyard.db", place / "brickyard.db-wal"
    store = Store.open(f"sqlite:///{file}")

    await store.write(lambda tx: tx.set_meta("acknowledged", "1"))
    assert await store.check() is None
    if how == "directory":
        place.rename(tmp_path / "away")
    elif how == "removed":
        (tmp_path / "away").hardlink_to(file)
        file.unlink()
    elif how == "log":
        (tmp_path / "away").hardlink_to(log)
        log.unlink()
    else:
        file.rename(tmp_path / "away")
    if how == "replaced":
        file.touch()
    writes = [store.write(lambda tx, key=key: tx.set_meta(key, "1")) for key in "abc"]  # type: ignore[misc] # a default
    answers = await asyncio.gather(*writes, return_exceptions=True)
    assert [type(answer) for answer in answers] == [DatabaseAway] * 3
    apart = await asyncio.gather(*(store.write(work) for work in (_set_d, _set_d_and_fail)), return_exceptions=True)
    assert type(apart[0]) is DatabaseAway
    assert isinstance(await store.check(), DatabaseAway)
    assert [await store.read(lambda tx, key=key: tx.get_meta(key)) for key in "abcd"] == [None] * 4  # type: ignore[misc] # as above
    if how == "replaced":
        file.unlink()
    (tmp_path / "away").rename({"directory": place, "log": log}.get(how, file))
    assert await store.check() is None, "it is back where it was"
    await store.write(lambda tx: tx.set_meta("a", "2"))
    store.close()
    again = Store.open(f"sqlite:///{file}")
    assert again.read_sync(lambda tx: (tx.get_meta("acknowledged"), tx.get_meta("a"))) == ("1", "2")
    again.close()


def test_a_connection_that_is_opened_later_makes_no_file_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "brickyard.db"
    store = Store.open(f"sqlite:///{file}")
    file.rename(tmp_path / "away")
    with ThreadPoolExecutor(4) as threads:
        results = [threads.submit(store.read_sync, _read_slowly) for _ in range(4)]
    assert {type(result.exception()) for result in results} <= {type(None), DatabaseAway}
    assert not file.exists()
    store.close()


def _read_slowly(tx: Tx) -> None:
    """So that each thread needs a connection of its own."""
    time.sleep(0.05)
    tx.get_meta("a")


def _set_d(tx: Tx) -> None:
    tx.set_meta("d", "1")


def _set_d_and_fail(tx: Tx) -> None:
    """So that the units of its turn are done again, apart."""
    _set_d(tx)
    raise ValueError
