"""What happened inside a start and its first command, from the logs that its nodes left: when each thing was first said.

Spark's own lines tell of the driver and the executors, ours (`agent.log`) of the node.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

# What to look for in the driver's log: a name, and how the first such line begins.
START = (
    ("driver: Spark begins", "SparkContext: Running Spark version"),
    ("master: worker registered", "Master: Registering worker"),
    ("master: executor is launched", "Master: Launching executor"),
    ("driver: executor registered", "Registered executor NettyRpcEndpointRef"),
    ("executor's first task begins", "TaskSetManager: Starting task 0.0"),
    ("executor's first task is done", "TaskSetManager: Finished task"),
)
# The same, of the first command. Its jobs are those after the one with which the driver tries an executor.
COMMAND = (
    ("command: code is generated", "CodeGenerator: Code generated"),
    ("command: first job begins", "DAGScheduler: Got map stage job"),
    ("command: first task begins", "TaskSetManager: Starting task"),
    ("command: first task is done", "TaskSetManager: Finished task"),
)
LAST_JOB, LAST_DONE = "command: last job begins", "command: last job is done"
AGENT = (
    ("driver's agent takes the node", "node of cluster"),
    ("driver: context made", "the SparkContext is made"),
    ("driver: READY", "Spark has answered"),
    ("driver: catalog open", "sessions may be made"),
    ("driver: spare kernel ready", "a Python process is ready"),
)
TRIAL = " in stage 0.0 "  # of that job's task
_DRIVER_LINE = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}) \w+ (.*)")
_AGENT_LINE = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3})Z (.*)")


def marks(logs: Path, *, since: float, command: float) -> dict[str, float]:
    """Returns epoch seconds by name. `logs`: what the nodes of the cluster left; `since`: the create; `command`: the command."""
    found: dict[str, float] = {}
    for node in sorted(logs.iterdir()) if logs.is_dir() else ():
        driver = node / "log4j-active.log"
        text = driver.read_text(errors="replace") if driver.exists() else ""
        if "SparkContext: Running Spark version" not in text:
            continue  # a worker
        lines = list(_lines(text, _DRIVER_LINE, since))
        _first(lines, START, found)
        theirs = [(at, line) for at, line in lines if at >= command and TRIAL not in line]
        _first(theirs, COMMAND, found)
        for at, line in theirs:
            if "DAGScheduler: Got job" in line:
                found[LAST_JOB] = at
            if "DAGScheduler: Job" in line and " finished" in line:
                found[LAST_DONE] = at
        agent = (node / "agent.log").read_text(errors="replace") if (node / "agent.log").exists() else ""
        _first(_lines(agent, _AGENT_LINE, since), AGENT, found)
    return found


def _first(lines: Iterable[tuple[float, str]], wanted: Iterable[tuple[str, str]], found: dict[str, float]) -> None:
    wanted = list(wanted)
    for at, line in lines:
        for name, part in wanted:
            if part in line:
                found.setdefault(name, at)


def _lines(text: str, form: re.Pattern[str], since: float) -> Iterator[tuple[float, str]]:
    """The lines with their times. A log may use the machine's time zone: what is hours away from `since` is moved."""
    shift: float | None = None
    for line in text.splitlines():
        if match := form.match(line):
            at = datetime.fromisoformat(match[1]).replace(tzinfo=UTC).timestamp()
            if shift is None:
                shift = round((at - since) / 900) * 900.0
            yield at - shift, match[2]
