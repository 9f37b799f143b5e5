"""Locks of drivers that write: one holder, whatever ends when, and nothing left behind."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from brickyard.agent.catalog.writelocks import Kind, Lock, Unlock, WriteLocks
from brickyard.storage.metastore import Refused

HELD = {"held": True}


class Driver:
    """Asks as a cluster's driver does."""

    def __init__(self, root: Path, cluster_id: str) -> None:
        self.locks, self.cluster_id, self.host = WriteLocks(root), cluster_id, object()

    def lock(self, kind: Kind, name: str) -> dict[str, object]:
        return self.locks.answer(Lock(kind, name), cluster_id=self.cluster_id, host=self.host)

    def unlock(self, kind: Kind, name: str) -> None:
        self.locks.answer(Unlock(kind, name), cluster_id=self.cluster_id, host=self.host)


@pytest.fixture
def one(tmp_path: Path) -> Driver:
    return Driver(tmp_path, "one")


@pytest.fixture
def two(tmp_path: Path) -> Driver:
    return Driver(tmp_path, "two")


def files(top: Path) -> list[Path]:
    return [path for path in top.rglob("*") if path.is_file()]


def test_one_driver_holds_a_place_and_others_hear_whose_it_is(one: Driver, two: Driver, tmp_path: Path) -> None:
    assert one.lock("place", "dbfs:/t") == HELD == one.lock("place", "dbfs:/t")
    assert two.lock("place", "dbfs:/t") == {"held": False, "holder": "one"}
    assert two.lock("place", "dbfs:/other") == HELD
    one.unlock("place", "dbfs:/t")
    two.unlock("place", "dbfs:/other")
    assert two.lock("place", "dbfs:/t") == HELD
    assert one.lock("place", "dbfs:/t") == {"held": False, "holder": "two"}
    two.unlock("place", "dbfs:/t")
    two.unlock("place", "dbfs:/t")
    assert not files(tmp_path)


def test_a_driver_has_its_own_records_and_one_other_lock_of_a_kind(one: Driver, two: Driver) -> None:
    assert one.lock("driver", "one") == HELD == two.lock("driver", "two")
    assert one.lock("driver", "two") == {"held": False, "holder": "two"}
    assert one.lock("driver", "dead") == HELD == one.lock("place", "dbfs:/t")
    for kind, name in (("driver", "dead too"), ("place", "dbfs:/u")):
        with pytest.raises(Refused):
            one.lock(kind, name)  # type: ignore[arg-type] # both are kinds
    assert two.lock("driver", "dead") == {"held": False, "holder": "one"}
    for name in ("", "x" * 5000):
        with pytest.raises(Refused):
            two.lock("place", name)


def test_all_ends_with_the_node_and_nothing_comes_later(one: Driver, two: Driver, tmp_path: Path) -> None:
    assert one.lock("driver", "one") == HELD == one.lock("place", "dbfs:/t")
    one.locks.end(one.host)
    assert not files(tmp_path)
    with pytest.raises(Refused):
        one.lock("place", "dbfs:/t")
    assert two.lock("place", "dbfs:/t") == HELD
    one.host = object()  # the next cluster's
    assert one.lock("driver", "one") == HELD


def test_an_agent_that_was_killed_holds_nothing(one: Driver, tmp_path: Path) -> None:
    assert one.lock("place", "dbfs:/t") == HELD
    (path,) = files(tmp_path)
    one.unlock("place", "dbfs:/t")
    path.write_text("killed")  # as such an agent leaves it
    assert one.lock("place", "dbfs:/t") == HELD
    assert path.read_text() == "one"


def test_of_many_that_ask_at_once_one_has_it_at_a_time(tmp_path: Path) -> None:
    """A lock file is removed while others have opened it."""
    inside, most, entered = 0, 0, 0
    mutex = threading.Lock()

    def commit(name: str) -> None:
        nonlocal inside, most, entered
        driver = Driver(tmp_path, name)
        for _ in range(100):
            while driver.lock("place", "dbfs:/t") != HELD:
                pass
            with mutex:
                inside += 1
                most, entered = max(most, inside), entered + 1
            with mutex:
                inside -= 1
            driver.unlock("place", "dbfs:/t")

    threads = [threading.Thread(target=commit, args=(f"c{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most, entered) == (1, 400)
    assert not files(tmp_path)
