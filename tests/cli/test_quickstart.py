"""The quickstart's ways to end without a result: what it started is taken back, what ran before runs on. No Spark is needed."""

from __future__ import annotations

import json
import os
import signal
import socket
from pathlib import Path
from typing import Any, cast

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.service.compute import (
    CommandStatus,
    CommandStatusResponse,
    ContextStatus,
    ContextStatusResponse,
    Results,
    ResultType,
    State,
)

from brickyard.cli import CliError
from brickyard.cli.flights import Airline, Data, expected
from brickyard.cli.mainjob import Answer, ask, check
from tests.support.command import Cli, one_line, processes_of
from tests.support.golden import Golden
from tests.support.patience import PATIENCE_S, until


def interrupt_while_the_cluster_starts(cli: Cli) -> str:
    """Press Ctrl-C in the middle of it; returns the last words."""
    quickstart = cli.start("quickstart")
    assert quickstart.stdout is not None
    assert any(" PENDING: " in line for line in quickstart.stdout), "its cluster starts"
    os.killpg(quickstart.pid, signal.SIGINT)
    _, said = quickstart.communicate(timeout=PATIENCE_S)
    assert quickstart.returncode == 130, said
    return said.splitlines()[-1]


def test_ctrl_c_stops_the_server_that_it_started(local: Cli, golden: Golden) -> None:
    said = interrupt_while_the_cluster_starts(local)
    golden(said)
    assert local.workspace.running() is None
    until(lambda: not processes_of(local.data.parent), "the end of every process")
    assert list((local.data / "instances").iterdir()) == []


def test_ctrl_c_leaves_a_server_that_ran_before(local: Cli, golden: Golden) -> None:
    assert local.run("up", "--detach").returncode == 0
    before = local.workspace.running()
    assert before is not None
    said = interrupt_while_the_cluster_starts(local)
    golden(said)
    after = local.workspace.running()
    assert after is not None
    assert (after.pid, after.url, after.about["started_ms"]) == (before.pid, before.url, before.about["started_ms"])
    (cluster,) = local.client().clusters.list()
    assert local.client().clusters.wait_get_cluster_terminated(str(cluster.cluster_id)).state is State.TERMINATED
    assert local.run("down").returncode == 0


def test_a_run_that_fails_says_that_its_server_goes_on(local: Cli, golden: Golden) -> None:
    """Without a package index, say: the server's own words must not be the only ones that tell of it."""
    with socket.socket() as bound:  # nobody listens there
        bound.bind(("127.0.0.1", 0))
        local.environment |= {"UV_DEFAULT_INDEX": f"http://127.0.0.1:{bound.getsockname()[1]}/simple", "UV_HTTP_RETRIES": "0"}
        failed = local.run("quickstart", "--no-pool")
        running = local.workspace.running()
        assert running is not None
        assert failed.returncode == 1
        golden(failed.stderr.splitlines()[-1].partition(". ")[2], running.url)  # before it, why
        assert "Traceback" not in failed.stderr
        assert local.run("down").returncode == 0


def test_a_simulated_workspace_is_refused(cli: Cli, golden: Golden) -> None:
    assert cli.run("up", "--detach").returncode == 0
    said = one_line(cli.run("quickstart"))
    golden(said)
    assert cli.run("down").returncode == 0
    golden(one_line(cli.run("quickstart")))
    assert cli.workspace.running() is None


def test_the_answer_is_worked_out_from_the_files(tmp_path: Path) -> None:
    data = Data(tmp_path / "flights.csv", tmp_path / "airlines.csv")
    data.airlines.write_text('carrier,name\nAA,"American, Inc."\nUA,United\n')
    data.flights.write_text("year,carrier,arr_delay\n2013,UA,2\n2013,UA,NA\n2013,UA,5\n2013,AA,-1\n")
    assert expected(data) == [Airline("United", 3, 3.5), Airline("American, Inc.", 1, -1.0)]


@pytest.mark.parametrize(
    ("rows", "airlines"),
    [
        (3, [Airline("United", 3, 3.5)]),
        (4, [Airline("United", 3, 3.5001)]),
        (4, [Airline("United", 2, 3.5)]),
        (4, []),
    ],
)
def test_a_wrong_answer_fails(rows: int, airlines: list[Airline], golden: Golden) -> None:
    right = [Airline("United", 3, 3.5)]
    check(Answer(4, right, "4.0.5"), right, rows=4)
    with pytest.raises(CliError) as wrong:
        check(Answer(rows, airlines, "4.0.5"), right, rows=4)
    golden(wrong.value.message)


class Begun:
    """What has been begun; it is not waited for in the SDK's way, which looks ever more rarely."""

    def __init__(self, **names: str) -> None:
        self._names = names

    def bind(self) -> dict[str, str]:
        return self._names


class Commands:
    """A workspace's commands, of which each look tells the next status."""

    def __init__(self, contexts: list[ContextStatus], commands: list[CommandStatus], results: Results | None) -> None:
        self.command_execution = self
        self._contexts, self._commands, self._results = contexts, commands, results
        self.open: set[str] = set()

    def create(self, **_: Any) -> Begun:
        self.open.add("the context")
        return Begun(context_id="the context")

    def execute(self, *, context_id: str, **_: Any) -> Begun:
        assert context_id in self.open
        return Begun(command_id="the command")

    def context_status(self, _cluster_id: str, context_id: str) -> ContextStatusResponse:
        assert context_id in self.open
        return ContextStatusResponse(context_id, self._contexts.pop(0))

    def command_status(self, _cluster_id: str, context_id: str, command_id: str) -> CommandStatusResponse:
        assert context_id in self.open
        assert command_id == "the command"
        status = self._commands.pop(0)
        return CommandStatusResponse(command_id, None if self._commands else self._results, status)

    def destroy(self, _cluster_id: str, context_id: str) -> None:
        self.open.remove(context_id)


def test_the_query_is_waited_for() -> None:
    said = json.dumps({"rows": 3, "answer": [["United", 3, 3.5]], "spark": "4.0.5"})
    commands = Commands(
        [ContextStatus.PENDING, ContextStatus.RUNNING],
        [CommandStatus.QUEUED, CommandStatus.RUNNING, CommandStatus.FINISHED],
        Results(data=f"a warning\n{said}\n", result_type=ResultType.TEXT),
    )
    assert ask(cast(WorkspaceClient, commands), "c", print) == Answer(3, [Airline("United", 3, 3.5)], "4.0.5")
    assert not commands.open


@pytest.mark.parametrize(
    ("contexts", "commands", "results"),
    [
        ([ContextStatus.ERROR], [], None),
        ([ContextStatus.RUNNING], [CommandStatus.CANCELLED], None),
        (
            [ContextStatus.RUNNING],
            [CommandStatus.RUNNING, CommandStatus.ERROR],
            Results(result_type=ResultType.ERROR, summary="the process has ended"),
        ),
    ],
)
def test_a_query_without_an_answer_fails(
    contexts: list[ContextStatus], commands: list[CommandStatus], results: Results | None, golden: Golden
) -> None:
    fake = Commands(contexts, commands, results)
    with pytest.raises(CliError) as failed:
        ask(cast(WorkspaceClient, fake), "c", print)
    golden(failed.value.message)
    assert not fake.open
