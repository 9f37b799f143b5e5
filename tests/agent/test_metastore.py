"""The workspace's metastore: every change whole or not at all, whoever else makes one."""

from __future__ import annotations

import base64
import errno
import itertools
import json
import multiprocessing
import os
import zlib
from pathlib import Path
from typing import Any

import pytest

from brickyard.agent.catalog import metastore
from brickyard.agent.catalog.metastore import CONFLICT, Metastore
from brickyard.domain.node import Role
from brickyard.machine.pressure import DBFS_FULL
from tests.agent.world import World
from tests.support.patience import until


def packed(tree: object) -> str:
    return base64.b64encode(zlib.compress(json.dumps(tree).encode())).decode()


def unpacked(text: str) -> Any:
    return json.loads(zlib.decompress(base64.b64decode(text)))


class Driver:
    """Asks as a cluster's driver does."""

    def __init__(self, root: Path) -> None:
        self.store = Metastore(root)

    def ask(self, ask: str, **fields: Any) -> dict[str, Any]:
        return self.store.answer(json.dumps({"ask": ask, **fields}).encode(), cluster_id="one", host=self)

    def put(self, name: str, tree: object, *, version: str = "", database: str = "default") -> dict[str, Any]:
        return self.ask("put", database=database, kind="table", name=name, version=version, text=packed(tree))

    def look(self, *names: str, database: str = "default") -> dict[str, Any]:
        found = self.ask("look", database=database, names=names)["found"]
        return {name: held and {**held, "text": unpacked(held["text"])} for name, held in found.items()}

    def version(self, name: str) -> str:
        return str(self.look(name)[name]["version"])

    def names(self, database: str = "default") -> list[str]:
        found: list[str] = self.ask("names", database=database, kind="table")["names"]
        return found


@pytest.fixture
def one(tmp_path: Path) -> Driver:
    return Driver(tmp_path / "metastore")


@pytest.fixture
def other(tmp_path: Path) -> Driver:
    return Driver(tmp_path / "metastore")


def test_what_one_cluster_writes_the_other_reads(one: Driver, other: Driver) -> None:
    assert other.names() == [] and other.look("t") == {"": None, "t": None}, "nothing is made by looking"
    version = one.put("t", {"table": 1})["version"]
    assert other.look("t")["t"] == {"version": version, "text": {"table": 1}}
    known = {"": "", "t": version}
    assert other.ask("look", database="default", names=["t"], known=known) == {"same": True}
    assert one.put("t", {"table": 2}, version=version)["version"] != version
    assert other.ask("look", database="default", names=["t"], known=known)["found"]["t"]["version"] != version


def test_a_change_of_what_another_has_changed_is_not_made(one: Driver, other: Driver) -> None:
    first = one.put("t", {"by": "one"})["version"]
    assert other.put("t", {"by": "other"}) == CONFLICT, "there is one already"
    one.put("t", {"by": "one again"}, version=first)
    assert other.put("t", {"by": "other"}, version=first) == CONFLICT
    assert other.ask("drop", database="default", kind="table", name="t", version=first) == CONFLICT
    assert other.ask("rename", database="default", kind="table", name="t", to="u", version=first) == CONFLICT
    assert one.look("t")["t"]["text"] == {"by": "one again"}


def test_a_rename_takes_no_other_tables_name(one: Driver) -> None:
    for name in ("a", "b"):
        one.put(name, {"was": name})
    rename = {"database": "default", "kind": "table", "name": "a"}
    assert one.ask("rename", to="b", version=one.version("a"), **rename) == CONFLICT
    assert one.ask("rename", to="c", version=one.version("a"), **rename) == {}
    assert one.names() == ["b", "c"] and one.look("c")["c"]["text"] == {"was": "a"}


def test_what_is_dropped_names_its_rows_until_they_are_removed(
    one: Driver, other: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one.put("t", {"rows": "here"})
    answer = one.ask("drop", database="default", kind="table", name="t", version=one.version("t"))
    assert [unpacked(text) for text in answer["texts"].values()] == [{"rows": "here"}]
    assert one.names() == [] and one.put("t", {"rows": "new"})["version"], "the name is free at once"
    assert other.ask("abandoned") == {}, "its driver is removing them"
    monkeypatch.setattr(metastore, "ABANDONED_S", -1.0)
    assert other.ask("abandoned") == answer
    done = {"id": answer["id"], "texts": {}}
    assert one.ask("cleared", id=answer["id"], files=["other.json", "../lock"]) == answer, "which its driver has not removed"
    assert [each.ask("cleared", id=answer["id"], files=list(answer["texts"])) for each in (one, other)] == [done, done]
    assert one.ask("abandoned") == {} and one.names() == ["t"] and (tmp_path / "metastore" / "lock").exists()


def test_a_database_is_dropped_with_everything_or_when_it_is_empty(one: Driver) -> None:
    assert one.put("t", {}, database="d") == CONFLICT, "there is no such database"
    one.put("", {"database": "d"}, database="d")
    one.put("t", {"table": 1}, database="d")
    assert one.ask("databases") == {"names": ["d"]}
    assert one.ask("drop_database", database="d", cascade=False) == CONFLICT
    assert {"table": 1} in map(unpacked, one.ask("drop_database", database="d", cascade=True)["texts"].values())
    assert one.ask("databases") == {"names": []} and one.names("d") == []
    assert one.ask("drop_database", database="default", cascade=True) == CONFLICT


@pytest.mark.parametrize("name", ["..", ".", "../../key", "a/b", "tab.le", "größe", "x y", "%2e%2e", ".draft", "a\0b"])
def test_names_lead_nowhere_else(one: Driver, tmp_path: Path, name: str) -> None:
    one.put("", {}, database=name)
    one.put(name, {"named": name}, database=name)
    assert one.names(name) == [name] and one.ask("databases")["names"] == [name]
    assert one.look(name, database=name)[name]["text"] == {"named": name}
    assert [path.name for path in tmp_path.iterdir()] == ["metastore"]
    assert sorted(path.name for path in (tmp_path / "metastore").iterdir()) == ["databases", "lock"]


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (b"nonsense", "makes no sense"),
        (b'{"ask": "shutdown"}', "makes no sense"),
        (b"[" * 100_000, "makes no sense"),
        (b'{"ask": "put", "database": "d", "version": "", "text": "eA=="}', "damaged"),
        (b'{"ask": "names", "database": "", "kind": "table"}', "is empty or longer"),
        (b'{"ask": "names", "database": "' + b"x" * 300 + b'", "kind": "table"}', "is empty or longer"),
        (b'{"ask": "names", "database": "d", "kind": "../.."}', "makes no sense"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(one: Driver, request_: bytes, said: str) -> None:
    assert said in one.store.answer(request_, cluster_id="one", host=one)["error"]


def test_a_description_has_a_size_and_a_form(one: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no JSON object" in one.put("t", [1])["error"]
    monkeypatch.setattr(metastore, "MAX_TEXT", 1000)
    assert "too many partitions" in one.put("t", {"partitions": "x" * 1_000_000})["error"]
    monkeypatch.setattr(metastore, "MAX_PACKED", 300)
    assert "too many partitions" in one.put("t", {"partitions": os.urandom(400).hex()})["error"]
    assert one.names() == []


def test_answers_have_a_size_and_the_rest_comes_when_it_is_asked_for(one: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    one.put("", {}, database="d")
    for name in ("a", "b", "c"):
        one.put(name, {"random": os.urandom(100).hex()}, database="d")
    monkeypatch.setattr(metastore, "MAX_ANSWER", 500)
    assert [*one.look("a", "b", "c", database="d")] == ["", "a", "b"]
    assert [*one.look("c", database="d")] == ["", "c"]
    left = one.ask("drop_database", database="d", cascade=True)
    seen = []
    while left["texts"]:
        seen.append([*left["texts"]])
        left = one.ask("cleared", id=left["id"], files=seen[-1])
    assert [each for part in seen for each in part] == ["d/database.json", "d/table/a.json", "d/table/b.json", "d/table/c.json"]
    assert len(seen) == 2, "each answer has a part"


def test_while_the_workspaces_files_exceed_their_limit_tables_can_only_be_dropped(one: Driver, tmp_path: Path) -> None:
    version = one.put("t", {"old": 1})["version"]
    (tmp_path / DBFS_FULL).parent.mkdir()
    (tmp_path / DBFS_FULL).touch()
    assert "dbfs_gb" in one.put("t", {"new": 1}, version=version)["error"] and "dbfs_gb" in one.put("u", {})["error"]
    assert one.ask("drop", database="default", kind="table", name="t", version=version)["id"]


def test_on_a_full_disk_nothing_changes_and_tables_can_be_dropped(one: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    version = one.put("t", {"old": 1})["version"]

    def full(_fd: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert "No space left" in one.put("t", {"new": 1}, version=version)["error"]
    assert "No space left" in one.put("u", {"new": 1})["error"]
    assert one.look("t")["t"] == {"version": version, "text": {"old": 1}} and one.names() == ["t"]
    assert one.ask("drop", database="default", kind="table", name="t", version=version)["id"]


def _killed_in(root: Path, step: int) -> None:
    """Changes everything, and is killed before its `step`th change of a file."""
    steps = itertools.count()

    def counted(act: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            if next(steps) == step:
                os._exit(9)
            return act(*args, **kwargs)

        return call

    for owner, name in ((Path, "rename"), (os, "fsync"), (Path, "mkdir")):
        setattr(owner, name, counted(getattr(owner, name)))
    driver = Driver(root)
    driver.put("t", {"now": "after"}, version=driver.version("t"))
    driver.put("new", {"now": "after"})
    driver.ask("rename", database="default", kind="table", name="old", to="moved", version=driver.version("old"))
    driver.ask("drop", database="default", kind="table", name="gone", version=driver.version("gone"))
    os._exit(0)


def test_a_kill_at_any_step_leaves_each_entry_as_it_was_or_as_it_should_be(tmp_path: Path) -> None:
    for step in itertools.count():
        root = tmp_path / str(step)
        driver = Driver(root)
        for name in ("t", "old", "gone"):
            driver.put(name, {"now": "before"})
        process = multiprocessing.get_context("fork").Process(target=_killed_in, args=(root, step))
        process.start()
        process.join()
        found = driver.look("t", "old", "moved", "new", "gone")
        assert found["t"]["text"] in ({"now": "before"}, {"now": "after"})
        assert [found["old"], found["moved"]].count(None) == 1
        assert driver.put("again", {})["version"], "the lock is free, and a draft is in nobody's way"
        if process.exitcode == 0:
            assert step > 8 and found["gone"] is None and found["new"]["text"] == {"now": "after"}
            return


@pytest.mark.parametrize(
    ("role", "answer"), [(Role.SINGLE, {"names": ["d"]}), (Role.WORKER, {"error": "this node has no metastore"})]
)
def test_an_agent_answers_its_driver_and_no_worker(here: World, role: Role, answer: object) -> None:
    root = here.data_dir / "metastore"
    Driver(root).put("", {}, database="d")
    asked = json.dumps({"event": "metastore", "ask": 7, "request": {"ask": "databases"}})
    instance = here.instance(metastore_dir=str(root)).start()
    here.ready(instance, role=role, master_url="spark://127.0.0.1:1", spark_conf={"test.raw": asked})
    until((instance.node / "work" / "answer").exists, "no answer")
    assert json.loads((instance.node / "work" / "answer").read_text()) == [7, answer]
