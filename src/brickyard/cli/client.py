"""The official SDK, configured for the workspace of a data directory."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from brickyard.cli import CliError
from brickyard.server.datadir import RunningServer, Workspace, WorkspaceError

if TYPE_CHECKING:
    from databricks.sdk import WorkspaceClient

RETRY_S = 30  # a local server that does not answer for this long will not answer at all


def client(workspace: Workspace) -> WorkspaceClient:
    """A client of the server that runs on the data directory, as its administrator. Raises CliError."""
    running = serving(workspace)
    go_direct(running.url)
    for name in [each for each in os.environ if each.startswith("DATABRICKS_")]:
        del os.environ[name]  # they would select another workspace
    from databricks.sdk import WorkspaceClient  # noqa: PLC0415 - half a second of imports
    from databricks.sdk.core import Config  # noqa: PLC0415 - as above

    try:
        token = workspace.stored_token()
    except WorkspaceError as error:
        raise CliError(str(error)) from error
    return WorkspaceClient(config=Config(host=running.url, token=token, auth_type="pat", retry_timeout_seconds=RETRY_S))


def serving(workspace: Workspace, found: str = "") -> RunningServer:
    """The server on the data directory, with its URL; `found` says how that directory was chosen. Raises CliError."""
    running = workspace.running()
    if running is None:
        how = f" (chosen {found})" if found else ""
        raise CliError(f"no server runs on {workspace.data_dir}{how}. Start one with `brickyard up`.")
    if not running.url:
        raise CliError(f"the server on {workspace.data_dir} ({running}) does not serve. Wait, or see {workspace.log_file}.")
    return running


def go_direct(url: str) -> None:
    """Makes all libraries of this process bypass HTTP proxies for the server."""
    host = urlsplit(url).hostname or ""
    for name in ("no_proxy", "NO_PROXY"):
        os.environ[name] = ",".join(filter(None, (os.environ.get(name), host)))
