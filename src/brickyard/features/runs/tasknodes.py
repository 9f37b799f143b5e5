"""Asks drivers to run attempts at tasks: each in a separate execution context, which keeps the output until it is collected.

The context and its single command are named after the attempt. Creating either twice changes nothing on a node, and the node
reports whether it knows them; so an attempt that a killed server began is found again rather than repeated. Both name the
cluster incarnation that they are for, and a node of another incarnation refuses them. The node also refuses a name whose context
was destroyed, so a request that arrives after the attempt is over begins nothing.
"""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import structlog

from brickyard.clusters.attach.shares import ContextShare
from brickyard.domain import nodeops
from brickyard.domain.clock import timed_name
from brickyard.domain.nodeops import (
    AgentRefused,
    AgentUnreachable,
    NewCommand,
    NewContext,
    NodeOp,
    OfCommand,
    OfContext,
    Reply,
    Request,
)
from brickyard.domain.run import Conclusion, Output, RunResultState, TerminationCode
from brickyard.features.runs.cells import CellCollector
from brickyard.features.runs.dbttasks import DbtTasks
from brickyard.features.runs.taskfiles import TaskFiles, UnreadableFile
from brickyard.nodes.calls import NodeCalls
from brickyard.plan.references import parameter_values, resolved
from brickyard.plan.run import FAILED
from brickyard.plan.submit import parameters, task_file, wheels
from brickyard.reconcile.runpass import Call
from brickyard.reconcile.runs import Ended, NodeSilent

MAX_LOGS = 5 * 1024 * 1024  # characters; the end is kept, as at Databricks
MAX_ERROR = 10_000
MAX_VALUES = 512 * 1024  # bytes as JSON; `dbutils` allows half of it
MAGIC = "%%brickyard_task"
NOTEBOOK_MAGIC = "%%brickyard_notebook"
STOP_LOOKS, STOP_PAUSE_S = 20, 0.5  # a driver replaces a process that has not reacted for 6 s
ACCESS_LOST = "PermissionDenied:"  # how the error of a process begins that was ended because its user lost access
_OVER = ("Finished", "Error", "Cancelled")
_TAG = re.compile(r"<[^>]*>")

Refusal = Callable[[Call], Awaitable[str]]
Share = Callable[[Call], Awaitable[ContextShare]]

log = structlog.get_logger(__name__)


class DriverTasks:
    """Implements `reconcile.runs.TaskNodes` with the agents of drivers."""

    def __init__(
        self, *, nodes: NodeCalls, files: TaskFiles, cells: CellCollector, refusal: Refusal, share: Share, dbt: DbtTasks
    ) -> None:
        """`refusal`: why the run's owner may not run code on the attempt's cluster now; "" if they may. `share`: what bounds
        their contexts there."""
        self._nodes = nodes
        self._files = files
        self._cells = cells
        self._refusal = refusal
        self._share = share
        self._dbt = dbt

    async def begin(self, call: Call) -> Ended | None:
        """Begins an attempt. It reads the task's file now, so a retry runs the file's current text."""
        if why := await self._refusal(call):
            return _failed(TerminationCode.UNAUTHORIZED_ERROR, f"{ACCESS_LOST} {why}")
        try:
            command = await self._command(call)
        except UnreadableFile as error:
            return _failed(TerminationCode.STORAGE_ACCESS_ERROR, str(error))
        name, generation = _name(call), call.driver.node_generation
        try:
            user = call.run.creator_user_name
            share = await self._share(call)
            context = NewContext(context_id=name, language="python", user=user, generation=generation, **share._asdict())
            await self._ask(call, nodeops.CONTEXT_CREATE, context)
            asked = NewCommand(context_id=name, command_id=name, language="python", command=command)
            await self._ask(call, nodeops.COMMAND_EXECUTE, asked)
        except AgentRefused as refused:
            if refused.code == "LIMIT":
                return _failed(TerminationCode.MAX_SPARK_CONTEXTS_EXCEEDED, refused.message)
            return _failed(TerminationCode.DRIVER_ERROR, f"The driver refused the task: {refused.message}")
        return None

    async def look(self, call: Call) -> Ended | None:
        try:
            answer = await self._ask(call, nodeops.COMMAND_STATUS, _command(call))
        except AgentRefused as refused:
            if refused.code == "NOT_FOUND":
                return _failed(TerminationCode.DRIVER_ERROR, "The driver no longer knows the task.")
            return _failed(TerminationCode.DRIVER_ERROR, f"The driver failed: {refused.message}")
        await self._collect(call)  # before the attempt is over, and after the command is: nothing is missed
        return _ended(answer.status, answer.results or {}) if answer.status in _OVER else None

    async def end(self, call: Call) -> None:
        try:
            await self._ask(call, nodeops.CONTEXT_DESTROY, OfContext(context_id=_name(call)))
        except AgentRefused as refused:
            if refused.code != "NOT_FOUND":
                log.warning("task_not_ended", task_run_id=call.attempt.task_run_id, reason=refused.message)
                raise NodeSilent(refused.message) from refused

    async def stop(self, call: Call) -> Output | None:
        """Stops an attempt. None if there is nothing to stop or it does not stop soon."""
        if call.attempt.result not in (RunResultState.CANCELED, RunResultState.TIMEDOUT):
            return None
        try:
            await self._ask(call, nodeops.COMMAND_CANCEL, _command(call))
            for _ in range(STOP_LOOKS):
                answer = await self._ask(call, nodeops.COMMAND_STATUS, _command(call))
                if answer.status in _OVER:
                    await self._collect(call)
                    found = _ended("Cancelled", answer.results or {}).output
                    return msgspec.structs.replace(found, error=call.attempt.message, error_trace="")
                await asyncio.sleep(STOP_PAUSE_S)
        except AgentRefused:
            return None  # it never began, or has just ended
        return None

    async def _command(self, call: Call) -> str:
        """The command for the context (runtime/node/kernel/task.py). Its first line names it, also in the Spark UI."""
        task = call.task.spec
        arguments = [resolved(each, call.run, call.task, call.attempt) for each in parameters(task)]
        described: dict[str, Any] = {"parameters": arguments, "wheels": wheels(task), "values": _values(call)}
        if (notebook := task.notebook_task) is not None:
            given = parameter_values(call.run) | {
                name: resolved(each, call.run, call.task, call.attempt) for name, each in (notebook.base_parameters or {}).items()
            }
            path = notebook.notebook_path.removeprefix("/Workspace")
            described |= {"path": path, "arguments": given}
            return f"{NOTEBOOK_MAGIC} task {task.task_key} of run {call.run.run_id}\n{msgspec.json.encode(described).decode()}"
        if task.spark_python_task is not None:
            file = task_file(task.spark_python_task.python_file)
            source = await self._files.read(file)
            described |= {"kind": "python", "place": file.place, "path": file.path, "source": source}
        elif (wheel := task.python_wheel_task) is not None:
            described |= {"kind": "wheel", "package": wheel.package_name, "entry_point": wheel.entry_point}
        elif task.dbt_task is not None:
            described |= await self._dbt.described(call, task.dbt_task)
        elif task.spark_jar_task is not None:
            described |= {"kind": "jar", "class": task.spark_jar_task.main_class_name}
        return f"{MAGIC} task {task.task_key} of run {call.run.run_id}\n{msgspec.json.encode(described).decode()}"

    async def _collect(self, call: Call) -> None:
        if call.task.spec.notebook_task is None:
            return
        try:
            await self._cells.collect(call, _command(call))
        except AgentUnreachable as silence:
            raise NodeSilent(str(silence)) from silence

    async def _ask(self, call: Call, op: NodeOp[Request, Reply], request: Request) -> Reply:
        try:
            return await self._nodes.ask(call.driver, op, request)
        except AgentUnreachable as silence:
            raise NodeSilent(str(silence)) from silence


def _name(call: Call) -> str:
    """The name of an attempt's context and of its command, the same on every server."""
    return timed_name(call.attempt.starting_ms, call.attempt.task_run_id)


def _values(call: Call) -> dict[str, dict[str, Any]]:
    """What other tasks of the run have set, by their keys."""
    lasts = ((task.spec.task_key, task.last) for task in call.run.tasks)
    return {key: last.values for key, last in lasts if last is not None and last.values}


def _command(call: Call) -> OfCommand:
    return OfCommand(context_id=_name(call), command_id=_name(call))


def _failed(code: TerminationCode, message: str) -> Ended:
    return Ended(conclusion=Conclusion(RunResultState.FAILED, code, message), output=Output(error=message))


def _ended(status: str, results: dict[str, Any]) -> Ended:
    """The outcome of the attempt according to the command's results (runtime/node/contexts/results.py)."""
    kind = results.get("resultType")
    printed = results.get("data" if kind in ("text", "error") and not results.get("isHtml") else "summary")
    text = printed if isinstance(printed, str) else ""
    cut = len(text) > MAX_LOGS or bool(results.get("truncated"))
    logs = text[-MAX_LOGS:]
    values = results.get("values") or {}  # of a task that failed, too: each counts from the moment it was set
    if len(msgspec.json.encode(values)) > MAX_VALUES:
        return _failed(TerminationCode.RUN_EXECUTION_ERROR, "The task has set more values than dbutils.jobs.taskValues allows.")
    if status == "Finished" and kind != "error":
        done = Conclusion(RunResultState.SUCCESS, TerminationCode.SUCCESS, "", values)
        if results.get("exited"):
            printed = str(results.get("summary") or "")
            return Ended(conclusion=done, output=Output(result=text[: MAX_LOGS + 1], logs=printed))
        return Ended(conclusion=done, output=Output(logs=logs, logs_truncated=cut))
    error = html.unescape(_TAG.sub("", str(results.get("summary") or "")))[:MAX_ERROR]
    output = Output(logs=logs, logs_truncated=cut, error=error or FAILED, error_trace=str(results.get("cause") or ""))
    if status == "Finished":
        failed = Conclusion(RunResultState.FAILED, TerminationCode.RUN_EXECUTION_ERROR, FAILED, values)
        return Ended(conclusion=failed, output=output)
    code = TerminationCode.UNAUTHORIZED_ERROR if error.startswith(ACCESS_LOST) else TerminationCode.DRIVER_ERROR
    lost = Conclusion(RunResultState.FAILED, code, error or "The task's process died.")
    return Ended(conclusion=lost, output=output)
