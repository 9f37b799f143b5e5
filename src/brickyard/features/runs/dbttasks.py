"""What the driver is told of a dbt task: the commands, and the profile with which dbt reaches the task's warehouse."""

from __future__ import annotations

from typing import Any, Protocol
from urllib.parse import urlsplit

from brickyard.domain.tasks import DbtTask
from brickyard.plan.dbttasks import commands_of
from brickyard.plan.references import resolved
from brickyard.reconcile.runpass import Call


class Tokens(Protocol):
    """Tokens of tasks. Implemented by `features.credentials.tasktokens.TaskTokens`."""

    async def make(self, *, run_id: int, task_run_id: int, starting_ms: int, warehouse_id: str) -> str:
        """The token of an attempt, for SQL on that warehouse; "" if the attempt is over."""
        ...


class DbtTasks:
    """`url`: where nodes reach the workspace."""

    def __init__(self, *, tokens: Tokens, url: str) -> None:
        self._tokens = tokens
        self._url = url

    async def described(self, call: Call, task: DbtTask) -> dict[str, Any]:
        """A dbt task for the kernel (runtime/node/kernel/dbt.py)."""
        commands = [[resolved(each, call.run, call.task, call.attempt) for each in command] for command in commands_of(task)]
        project = (task.project_directory or "").removeprefix("/Workspace")
        told = {"kind": "dbt", "project": f"/Workspace{project}", "commands": commands}
        if not task.warehouse_id:
            return {**told, "profiles": task.profiles_directory or ""}
        return {**told, "profile": await self._profile(call, task, task.warehouse_id), "url": self._url}

    async def _profile(self, call: Call, task: DbtTask, warehouse_id: str) -> dict[str, Any]:
        """The connection of dbt to the warehouse, with the attempt's token."""
        token = await self._tokens.make(
            run_id=call.run.run_id,
            task_run_id=call.attempt.task_run_id,
            starting_ms=call.attempt.starting_ms,
            warehouse_id=warehouse_id,
        )
        path = f"/sql/1.0/warehouses/{warehouse_id}"
        return {
            "type": "databricks",
            "host": urlsplit(self._url).netloc if self._url.startswith("https:") else self._url,  # dbt asks it over HTTPS else
            "http_path": path,
            "token": token,
            "catalog": task.catalog or "main",
            "schema": task.schema or "default",
            "threads": 4,
            "connection_parameters": {"_connection_uri": self._url + path, "enable_telemetry": False},
        }
