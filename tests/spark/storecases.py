"""What the tests of all object stores have: a cluster beside a store whose exchanges break, and the tests that each store passes.

The module of a store has the fixtures `line`, `store` and `proxy`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import msgspec
import pytest
from databricks.sdk.service.compute import CommandStatus, State

from tests.spark.layers import with_layers
from tests.spark.live import EXECUTOR, Live
from tests.spark.storecode import (
    APPENDS,
    ATTEMPT,
    BEGUN,
    COUNTED,
    FAILING,
    RACE,
    RESULT,
    SLOW,
    TABLE,
    TOGETHER,
    UNFINISHED,
    WRITES,
)
from tests.support.faultyproxy import FAULTS, FaultyProxy
from tests.support.patience import until
from tests.support.runtimes import SPARK_4

LINES = (SPARK_4, "18.0.x-scala2.13")
EVERY = 9  # one exchange of so many is broken: of a request's retries, one comes through
SINGLE = {"spark.databricks.cluster.profile": "singleNode", "spark.master": "local[*]"}


class Store(Protocol):
    """A store on loopback."""

    def names(self, top: str, /) -> list[str]: ...


class MovingStore(Store, Protocol):
    """One whose files are moved."""

    refuse: str
    """Moves to names that have it fail."""


@dataclass(frozen=True)
class Kind:
    """What one kind of store has of its own."""

    layer: str
    top: str
    """Where the tests write."""
    hadoop: Callable[[str], Mapping[str, str]]
    """Settings of Hadoop's, for a store behind this address. Secrets are in a scope with the layer's name."""
    secrets: Mapping[str, str]
    begun: str = "_temporary-"
    """In the names of what a task has written before its job is committed."""
    refusal: str = ""
    """What Spark says of a move that the store refuses."""
    log_store: str = ""
    """Delta Lake's, in io.delta.storage."""

    def conf(self, address: str) -> dict[str, str]:
        """Of a cluster with such a store."""
        return {
            "spark.brickyard.layers": f"delta,{self.layer}",
            "spark.sql.shuffle.partitions": "2",
            **{f"spark.hadoop.{key}": value for key, value in self.hadoop(address).items()},
        }


@dataclass(frozen=True)
class Here:
    """A cluster beside a store."""

    kind: Kind
    live: Live
    cluster: str

    def begin(self, code: str, cluster: str = "") -> tuple[str, str, str]:
        """Begins it in a context of its own; for `finished`."""
        on = cluster or self.cluster
        context = self.live.context(on)
        return on, context, self.live.begin(on, context, f"top = '{self.kind.top}'\n{code}")

    def finished(self, begun: tuple[str, str, str]) -> None:
        """Waits for it. Raises AssertionError if it failed."""
        answer = self.live.finish(*begun)
        assert answer.status is CommandStatus.FINISHED and answer.results and not answer.results.summary, answer

    def answers(self, code: str) -> Any:
        """What the code prints as JSON."""
        return json.loads(self.live.run_kept(self.cluster, f"import json\ntop = '{self.kind.top}'\n{code}"))


def with_layer(kind: Kind, line: str) -> str:
    """The line, with the runtime and its layers installed. Skips the test where no repository has them."""
    with_layers(line, ["delta", kind.layer])
    return line


class StoreCases:
    """Derive a class whose name begins with Test."""

    KIND: ClassVar[Kind]

    @pytest.fixture(scope="class")
    @classmethod
    def reached(cls, proxy: FaultyProxy) -> str:
        """What clusters may reach."""
        return proxy.address

    @pytest.fixture(scope="class")
    @classmethod
    def live(cls, line: str, tmp_path_factory: pytest.TempPathFactory, reached: str) -> Iterator[Live]:
        made = Live(tmp_path_factory.mktemp("live") / line)
        made.settings = msgspec.structs.replace(made.settings, network_allow=reached)
        made.start()
        try:
            made.w.secrets.create_scope(cls.KIND.layer)
            for key, value in cls.KIND.secrets.items():
                made.w.secrets.put_secret(cls.KIND.layer, key, string_value=value)
            yield made
        finally:
            made.close()

    @pytest.fixture(scope="class")
    @classmethod
    def here(cls, live: Live, line: str, proxy: FaultyProxy) -> Iterator[Here]:
        made = live.create(cls.KIND.layer, line, num_workers=1, spark_conf=cls.KIND.conf(proxy.address))
        live.wait(made, State.RUNNING, workers=1)
        yield Here(cls.KIND, live, made)
        live.w.clusters.delete(made)

    @pytest.fixture(autouse=True)
    def without_faults(self, proxy: FaultyProxy) -> Iterator[None]:
        """Each test turns them on itself."""
        cuttable = proxy.cuttable
        yield
        proxy.every, proxy.cuttable = 0, cuttable

    def test_writes_have_each_row_once_whatever_breaks(self, here: Here, proxy: FaultyProxy) -> None:
        proxy.every = EVERY
        appended, overwritten, dynamic, table, hidden = here.answers(WRITES)
        assert appended == [1500, 1500] and overwritten == [700, 700]
        assert dynamic == [220, 220], "two partitions of 100 rows are replaced by 10 each"
        assert table == [50 + 7 + 3, 7]
        assert hidden == ["_SUCCESS"] * 3
        assert set(proxy.made) == set(FAULTS)

    def test_an_executor_that_is_killed_doubles_and_loses_nothing(self, here: Here, store: Store) -> None:
        here.answers(BEGUN + COUNTED)
        command = here.begin(SLOW)
        until(lambda: any(here.kind.begun in name for name in store.names("t")), "no task writes")
        assert here.answers(COUNTED) == [700, 700], "nothing is replaced before the job is committed"
        here.live.kill(here.live.below(here.live.worker_agents(here.cluster)[0], EXECUTOR))
        here.finished(command)
        assert here.answers(COUNTED) == [200, 200]


class DeltaStoreCases(StoreCases):
    """Of a store with Delta Lake's log, and with committers of ours, which move files."""

    @pytest.fixture(autouse=True)
    def without_refusals(self, store: MovingStore) -> Iterator[None]:
        """The same."""
        yield
        store.refuse = ""

    def test_writes_that_fail_add_no_row_and_remove_none(self, here: Here, store: MovingStore) -> None:
        assert here.answers(BEGUN + COUNTED) == [700, 700]
        before = store.names("t")
        failed = here.answers(ATTEMPT + FAILING)
        assert all("AssertionError" in each for each in failed)
        store.refuse = "t/part-00003"  # the commit breaks in the middle
        failed = here.answers(ATTEMPT + UNFINISHED)
        assert all(here.kind.refusal in each for each in failed), failed
        assert here.answers(COUNTED) == [700, 700]
        assert store.names("t") == before, "nothing is left"
        store.refuse = "replaced/"  # the new files are there, and the older ones cannot be moved away
        assert here.kind.refusal in here.answers(ATTEMPT + UNFINISHED)[1]
        store.refuse = ""
        assert here.answers(COUNTED) == [900, 700], "the append alone"

    def test_jobs_that_write_to_one_directory_at_once_lose_nothing(self, here: Here, store: Store) -> None:
        assert here.answers(TOGETHER) == [1200, 1200]
        assert not [name for name in store.names("together") if "_temporary" in name]

    def test_of_writers_of_one_version_of_a_delta_table_one_wins(self, here: Here, proxy: FaultyProxy) -> None:
        proxy.every = EVERY
        won, there = here.answers(RACE.replace("STORE", here.kind.log_store))
        assert won == there, "one writer is told so, and it is the one whose commit is there"

    def test_two_clusters_that_write_to_one_delta_table_lose_and_double_nothing(
        self, here: Here, line: str, proxy: FaultyProxy
    ) -> None:
        conf, tags = SINGLE | here.kind.conf(proxy.address), {"ResourceClass": "SingleNode"}
        other = here.live.create("other", line, num_workers=0, spark_conf=conf, custom_tags=tags)
        try:
            here.answers(TABLE)
            here.live.wait(other, State.RUNNING)
            proxy.every = EVERY
            begun = [here.begin(APPENDS.replace("FIRST", str(first)), each) for first, each in ((1, here.cluster), (101, other))]
            for command in begun:
                here.finished(command)
            assert here.answers(RESULT) == [61, 61, list(range(7))]
        finally:
            here.live.w.clusters.delete(other)
