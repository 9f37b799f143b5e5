"""What an agent adds to the end of a traced command."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from brickyard.agent.host import HostError
from brickyard.agent.link.traces import MOST, CommandTraces
from brickyard.domain.nodeops import MAX_TRACED_JOBS, CommandTrace, OfCommand

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
JOB = {"job_id": 1, "began_ms": 11, "ended_ms": 12, "status": "SUCCEEDED", "tasks": 2, "stages": 1}


class Host:
    def __init__(self, answer: dict[str, Any] | HostError) -> None:
        self.answer = answer
        self.calls: list[str] = []

    async def call(self, op: str, **fields: Any) -> dict[str, Any]:
        self.calls.append(f"{op} {fields['context_id']} {fields['command_id']}")
        if isinstance(self.answer, HostError):
            raise self.answer
        return self.answer


def of(traces: CommandTraces, status: str, command_id: str = "c1") -> CommandTrace | None:
    return asyncio.run(traces.of(OfCommand(context_id="x", command_id=command_id), status))


def test_a_traced_command_is_told_once_and_only_when_it_is_over() -> None:
    host = Host({"began_ms": 10, "ended_ms": 20, "jobs": [JOB] * (MAX_TRACED_JOBS + 1)})
    traces = CommandTraces(host.call)
    traces.begun("c1", PARENT)
    assert of(traces, "Running") is None
    trace = of(traces, "Finished")
    assert trace is not None and (trace.traceparent, trace.status, trace.began_ms, trace.ended_ms) == (PARENT, "Finished", 10, 20)
    assert len(trace.jobs) == MAX_TRACED_JOBS
    assert of(traces, "Finished") is None
    assert host.calls == ["command_trace x c1"]


@pytest.mark.parametrize("parent", ["", "00-0af7-b7ad-01", PARENT + "\n", PARENT.upper()])
def test_other_commands_cost_no_call(parent: str) -> None:
    host = Host({})
    traces = CommandTraces(host.call)
    traces.begun("c1", parent)
    assert of(traces, "Finished") is None
    assert host.calls == []


@pytest.mark.parametrize(
    "answer", [HostError("TIMEOUT", "no"), {}, {"began_ms": "soon", "ended_ms": 1}, {"began_ms": 1, "ended_ms": 2, "jobs": [{}]}]
)
def test_a_node_that_says_nothing_useful_has_no_trace(answer: dict[str, Any] | HostError) -> None:
    traces = CommandTraces(Host(answer).call)
    traces.begun("c1", PARENT)
    assert of(traces, "Error") is None


def test_commands_whose_end_nobody_asks_for_are_forgotten() -> None:
    host = Host({"began_ms": 10, "ended_ms": 20})
    traces = CommandTraces(host.call)
    for number in range(MOST + 1):
        traces.begun(f"c{number}", PARENT)
    assert of(traces, "Finished", "c0") is None
    assert of(traces, "Finished", f"c{MOST}") is not None
