"""The server on a data directory, for commands: by plain requests, because the SDK takes half a second to load."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.parse import urlencode

from brickyard.cli import CliError, printable
from brickyard.cli.client import serving
from brickyard.cli.http import send
from brickyard.cli.options import settings
from brickyard.server.datadir import Workspace, WorkspaceError

TIMEOUT_S = 30.0  # a local server that does not answer for this long will not answer at all
# What a field of a request is called on the command line, for what the server says of it.
_OPTIONS = {
    "update_configuration.cpu_cores": "--cores",
    "update_configuration.memory_gb": "--memory",
    "update_configuration.gpu_count": "--gpus",
    "update_configuration.storage_gb": "--storage",
    "environment_updates": "--env",
    "auto_terminate_updates.idle_minutes": "--idle-minutes",
    "grace_period_minutes": "--grace",
    "auto_terminate_updates.max_runtime_minutes": "--max-runtime-minutes",
    "auto_terminate_updates.at": "--stop-at",
    "auto_terminate_updates.max_cost": "--max-cost",
    "internal_port": "--add",
    "external_port": "--external-port",
    "restore_from_snapshot": "SNAPSHOT",
}


class Refused(CliError):
    """The server's refusal, in its own words."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class Api(NamedTuple):
    """The server on a data directory, as its administrator."""

    url: str
    token: str
    client_url: str = ""  # for other people's clients

    def call(self, method: str, path: str, body: object = None, **query: str | int) -> Any:
        """The answer, None if it has no body. Raises Refused, or CliError if there is none."""
        url = f"{self.url}{path}?{urlencode(query)}" if query else f"{self.url}{path}"
        try:
            answer = send(method, url, body, token=self.token, timeout_s=TIMEOUT_S)
        except HTTPError as error:
            raise Refused(printable(_in_words(json.loads(error.read() or b"{}")) or str(error.reason)), error.code) from error
        except OSError as error:
            raise CliError(f"the server at {self.url} does not answer: {printable(str(error))}") from error
        return json.loads(answer) if answer else None


def _in_words(said: Any) -> str:
    """What the server says: every problem of a request, by the option that it is about."""
    details = said.get("details")  # an object in the /v1 dialect, a list in the other
    problems = details.get("problems") or () if isinstance(details, dict) else ()
    sentences = [f"{_OPTIONS.get(each['field'], each['field'])}: {each['reason'].rstrip('.')}." for each in problems]
    return " ".join(sentences) or str(said.get("message") or said.get("detail") or "")  # the last is SCIM's


def open_api(config_file: Path | None, options: Mapping[str, Any]) -> Api:
    """The API of the server that runs. Raises CliError."""
    chosen = settings(config_file, **options)
    workspace = Workspace(chosen.data_dir, chosen.storage_dir)
    running = serving(workspace)
    try:
        return Api(running.url, workspace.stored_token(), running.client_url)
    except WorkspaceError as error:
        raise CliError(str(error)) from error
