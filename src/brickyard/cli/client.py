"""The official SDK, configured for the workspace of a data directory."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from brickyard.cli import CliError, printable
from brickyard.cli.options import settings
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


@contextlib.contextmanager
def administering(config_file: Path | None, options: Mapping[str, Any]) -> Iterator[WorkspaceClient]:
    """The client of the workspace that the command's options name. Shows errors of the SDK as errors of the command."""
    chosen = settings(config_file, **options)
    workspace = client(Workspace(chosen.data_dir, chosen.storage_dir))
    from databricks.sdk.errors.base import DatabricksError  # noqa: PLC0415 - half a second of imports

    try:
        yield workspace
    except DatabricksError as error:
        raise CliError(printable(str(error))) from error


def client_url(config_file: Path | None, options: Mapping[str, Any]) -> str:
    """The URL for other people's clients of that workspace, whose server runs."""
    chosen = settings(config_file, **options)
    return serving(Workspace(chosen.data_dir, chosen.storage_dir)).client_url


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
