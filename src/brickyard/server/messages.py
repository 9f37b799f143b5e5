"""Messages that the server and its commands share, either printing them or parsing the other's output."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from brickyard.server.datadir import DATABASE, RemovedFiles, Workspace


def token_line(workspace: Workspace, token: str) -> str:
    """The line that shows a new administrator's token, once."""
    return f"Admin token (shown this once, kept in {workspace.storage.admin_token_file}): {token}"


def external_line(url: str) -> str:
    """The line about the address in `external_url`."""
    return f"People and clients reach it at {url} (external_url)."


def tls_line(url: str, ca_file: str) -> str:
    """The line about a server that speaks TLS. `ca_file`: what clients must trust; "": they do already."""
    line = f"HTTPS and Spark Connect (databricks-connect) are on one port: {url} (docs/connect.md#databricks-connect)."
    return f"{line}\n{trust_line(ca_file)}" if ca_file else line


def trust_line(ca_file: str) -> str:
    """What a shell needs for databricks-connect."""
    return f"For databricks-connect: export GRPC_DEFAULT_SSL_ROOTS_FILE_PATH={shlex.quote(ca_file)}"


def nodes_left(instances: list[str]) -> str:
    """The message about nodes that could not be ended."""
    names = ", ".join(instances)
    return (
        f"the server has stopped, but {len(instances)} of its nodes could not be ended: {names}. Run `brickyard down` again; the "
        f"processes are those with BRICKYARD_INSTANCE_ID={instances[0]} and so on in their environment."
    )


def files_removed(data_dir: Path, removed: RemovedFiles) -> str:
    """The message about a server whose files were removed while it runs."""
    pid, names = removed.pid, ", ".join(removed.files)
    copies = [f"cp /proc/{pid}/fd/{fd} {data_dir / name}" for name, fd in removed.files.items() if name.startswith(DATABASE)]
    save = (
        f"The process still has the database, and loses it when it ends. To save it: mkdir -p {data_dir}; {'; '.join(copies)}; "
        f"kill {pid}; then start a server, with the storage as it was or from a backup. To give it up: kill {pid}."
        if copies
        else f"Stop it with: kill {pid}."
    )
    return f"process {pid} serves {data_dir}, whose files ({names}) were removed or moved away while it runs. {save}"


def ended_line(why: str, *, as_json: bool) -> str:
    """The last log line of a server that ends with an error."""
    return json.dumps({"level": "error", "event": "ended", "why": why}) if as_json else f"brickyard: {why}"


def why_it_ended(line: str) -> str:
    """The reason from a line that `ended_line` wrote; "" for any other line."""
    if line.startswith('{"level": "error", "event": "ended"'):
        return str(json.loads(line)["why"])
    return line.removeprefix("brickyard: ") if line.startswith("brickyard: ") else ""
