"""The official SDK, pointed at the workspace of a data directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from brickyard.cli import CliError
from brickyard.lifecycle.workspace import Workspace, WorkspaceError

if TYPE_CHECKING:
    from databricks.sdk import WorkspaceClient


def client(workspace: Workspace) -> WorkspaceClient:
    """For the server that runs on the data directory, as its administrator. Raises CliError."""
    from databricks.sdk import WorkspaceClient  # noqa: PLC0415 - half a second of imports

    running = workspace.running()
    if running is None or not running.url:
        raise CliError(f"no server runs on {workspace.data_dir}. Start one with `brickyard up`.")
    try:
        return WorkspaceClient(host=running.url, token=workspace.stored_token(), auth_type="pat")
    except WorkspaceError as error:
        raise CliError(str(error)) from error
