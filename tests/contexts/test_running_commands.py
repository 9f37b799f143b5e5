"""What is told of a command while it runs on real Spark, also where users are kept apart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.contexts.host import Context, Host, host_of
from tests.support.patience import until
from tests.support.runtimes import SPARK_3, SPARK_4

pytestmark = pytest.mark.spark

LONG = "select sum(hash(sha2(cast(id as string), 256))) from range(1000000000000)"


HOSTS = [
    pytest.param((SPARK_4,), id="4"),
    pytest.param((SPARK_3,), id="3", marks=pytest.mark.extended),  # as other tests on it
    pytest.param((SPARK_4, "isolate"), id="isolated"),
]


@pytest.fixture(scope="module", params=HOSTS)
def host(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    runtime, *options = request.param
    with host_of(runtime, tmp_path_factory.mktemp("node"), *options) as made:
        yield made


def test_what_it_has_printed_and_which_jobs_it_runs(host: Host) -> None:
    python = host.new()
    command = python.start(f"print('first line', flush=True)\nspark.sql('{LONG}').collect()")
    until(lambda: progress(python, command).get("jobs"), "the command's job")
    told = progress(python, command)
    (job,) = told["jobs"]
    assert job["tasks"] >= 1 and job["stages"] >= 1 and job["completed_tasks"] < job["tasks"]
    assert told["printed"] == "first line\n"

    other = host.new()
    busy = other.start("import time; time.sleep(600)")
    until(lambda: "jobs" in progress(other, busy), "the other command")
    assert progress(other, busy)["jobs"] == []
    host.cancel(python.name, command)
    assert "progress" not in python.end_of(command)

    query = python.start(f"%sql {LONG}")
    until(lambda: progress(python, query).get("jobs"), "the statement's job")
    host.cancel(python.name, query)
    python.end_of(query)


def progress(context: Context, command: str) -> dict[str, Any]:
    found: dict[str, Any] = context.host.command_status(context.name, command).get("progress") or {}
    return found
