"""Clusters that the tests of one process share; each is made when a test first asks for its kind.

A test has the cluster for itself, and leaves it as it was: its contexts, its schema and its directory are removed. Whoever ends
processes, changes settings or installs something makes a cluster of their own. If a test leaves the cluster otherwise than it
was, that test fails, and the next one gets another cluster.
"""

from __future__ import annotations

import contextlib
import enum
import secrets
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from databricks.sdk.service.compute import ClusterDetails, CommandStatusResponse, DataSecurityMode, State
from databricks.sdk.service.compute import Kind as SpecKind

from tests.spark.live import NODE, User
from tests.support.runtimes import SPARK_4

# What tests may leave in a workspace: directories, relative to its own, whose entries are compared.
WATCHED = ("dbfs", "metastore/databases", "metastore/databases/default/table", "metastore/databases/default/function")
KEPT = {"dbfs/user", "metastore/databases/default"}  # made with the first table


class Kind(enum.Enum):
    """What a shared cluster is like."""

    SINGLE = "one node"
    ISOLATED = "one node that keeps its users apart"


_ALONE: dict[str, Any] = {"is_single_node": True, "kind": SpecKind.CLASSIC_PREVIEW}
SPECS: dict[Kind, dict[str, Any]] = {
    Kind.SINGLE: _ALONE,
    Kind.ISOLATED: {**_ALONE, "data_security_mode": DataSecurityMode.USER_ISOLATION},
}


class Lent:
    """A running cluster, as one test has it."""

    def __init__(self, user: User, cluster_id: str) -> None:
        self.user, self.cluster_id = user, cluster_id
        self._name = f"t{secrets.token_hex(6)}"
        self._schema = False
        self._contexts: list[str] = []

    @property
    def directory(self) -> str:
        """A path of the workspace's files for this test alone. Nothing is there yet."""
        return f"/{self._name}"

    def schema(self) -> str:
        """The name of a schema for this test's tables, which exists from the first call on."""
        if not self._schema:
            self._schema = True
            self.run(f"_ = spark.sql('create schema {self._name}')")
        return self._name

    def context(self) -> str:
        self._contexts.append(self.user.context(self.cluster_id))
        return self._contexts[-1]

    def begin(self, context_id: str, code: str) -> str:
        return self.user.begin(self.cluster_id, context_id, code)

    def finish(self, context_id: str, command_id: str) -> CommandStatusResponse:
        return self.user.finish(self.cluster_id, context_id, command_id)

    def run(self, code: str) -> str:
        """The text that code answers with, in a context that ends with it."""
        return self.user.run(self.cluster_id, code)

    def close(self) -> None:
        for each in self._contexts:
            self.user.w.command_execution.destroy(self.cluster_id, each)
        if self._schema:
            self.run(f"_ = spark.sql('drop schema {self._name} cascade')")
        if self.user.w.dbfs.exists(self.directory):
            self.user.w.dbfs.delete(self.directory, recursive=True)


class SharedClusters:
    """Those of one workspace."""

    def __init__(self, user: User, data: Path, *, node_type: str = NODE) -> None:
        """`data`: the workspace's directory."""
        self._user, self._data, self._node_type = user, data, node_type
        self._clusters: dict[Kind, str] = {}
        self._last = ""  # the test that had one last

    @contextlib.contextmanager
    def lent(self, kind: Kind, test: str) -> Iterator[Lent]:
        """The cluster of that kind, for the test whose name is given."""
        lent = Lent(self._user, self._running(kind))
        before, files = self._state(lent.cluster_id), self._files()
        self._last = test
        yield lent
        with contextlib.suppress(Exception):  # of a cluster that is gone, or that has what it should not have: said below
            lent.close()
        after, more = self._state(lent.cluster_id), self._files() - files
        if after != before:
            del self._clusters[kind]
            pytest.fail(f"{test} has left a shared cluster ({kind.value}) otherwise than it was: {before} -> {after}")
        if more:
            pytest.fail(f"{test} has left in the shared workspace: {sorted(more)}")

    def _running(self, kind: Kind) -> str:
        found = self._clusters.get(kind)
        if found is not None and (now := self._user.get(found)).state is not State.RUNNING:
            warnings.warn(f"a shared cluster ({kind.value}) has ended after {self._last}: {now.state_message}", stacklevel=2)
            found = None
        if found is None:
            spec: dict[str, Any] = {"node_type": self._node_type, "autotermination_minutes": 0, **SPECS[kind]}
            found = self._clusters[kind] = self._user.create(kind.value, SPARK_4, **spec)
            self._user.wait(found, State.RUNNING)
        return found

    def _state(self, cluster_id: str) -> dict[str, object]:
        """What is the same before and after a test."""
        now: ClusterDetails = self._user.get(cluster_id)
        state = {"state": now.state, "driver": now.driver, "workers": now.executors, "spark": now.spark_context_id}
        if now.state is not State.RUNNING:
            return {**state, "message": now.state_message}
        attached = self._user.w.api_client.do("GET", "/api/2.1/clusters/list-attached", query={"cluster_id": cluster_id})
        assert isinstance(attached, dict)
        return {**state, "contexts": [each["context_id"] for each in attached["contexts"]]}

    def _files(self) -> set[str]:
        found = [each for name in WATCHED for each in (self._data / name).glob("*")]
        return {str(each.relative_to(self._data)) for each in found} - KEPT
