"""The official SDK, pointed at the workspace of a data directory."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from brickyard.cli import CliError
from brickyard.lifecycle.workspace import Running, Workspace, WorkspaceError

if TYPE_CHECKING:
    from databricks.sdk import WorkspaceClient

RETRY_S = 30  # a server of our own that does not answer for so long will not answer at all


def client(workspace: Workspace) -> WorkspaceClient:
    """For the server that runs on the data directory, as its administrator. Raises CliError."""
    running = serving(workspace)
    go_direct(running.url)
    for name in [each for each in os.environ if each.startswith("DATABRICKS_")]:
        del os.environ[name]  # they lead to another workspace
    from databricks.sdk import WorkspaceClient  # noqa: PLC0415 - half a second of imports
    from databricks.sdk.core import Config  # noqa: PLC0415 - as above

    try:
        token = workspace.stored_token()
    except WorkspaceError as error:
        raise CliError(str(error)) from error
    return WorkspaceClient(config=Config(host=running.url, token=token, auth_type="pat", retry_timeout_seconds=RETRY_S))


def serving(workspace: Workspace, found: str = "") -> Running:
    """The server that runs on the data directory and says where; `found` is how we came to that one. Raises CliError."""
    running = workspace.running()
    if running is None:
        how = f" (chosen {found})" if found else ""
        raise CliError(f"no server runs on {workspace.data_dir}{how}. Start one with `brickyard up`.")
    if not running.url:
        raise CliError(f"the server on {workspace.data_dir} ({running}) does not serve. Wait, or see {workspace.log_file}.")
    return running


def go_direct(url: str) -> None:
    """Keep requests to the server out of an HTTP proxy, for every library of this process."""
    host = urlsplit(url).hostname or ""
    for name in ("no_proxy", "NO_PROXY"):
        os.environ[name] = ",".join(filter(None, (os.environ.get(name), host)))
