"""What both the server and the commands around it say, or read from what the other has said."""

from __future__ import annotations

import json

from brickyard.lifecycle.workspace import Workspace


def token_line(workspace: Workspace, token: str) -> str:
    """How a new administrator's token is shown, once."""
    return f"Admin token (shown this once, kept in {workspace.storage.admin_token_file}): {token}"


def nodes_left(instances: list[str]) -> str:
    """What is said of nodes that live on."""
    names = ", ".join(instances)
    return (
        f"the server has stopped, but {len(instances)} of its nodes could not be ended: {names}. Run `brickyard down` again; the "
        f"processes are those with BRICKYARD_INSTANCE_ID={instances[0]} and so on in their environment."
    )


def ended_line(why: str, *, as_json: bool) -> str:
    """The last line of the log of a server that ends by an error."""
    return json.dumps({"level": "error", "event": "ended", "why": why}) if as_json else f"brickyard: {why}"


def why_it_ended(line: str) -> str:
    """The reason in a line that `ended_line` wrote; "" of any other line."""
    if line.startswith('{"level": "error", "event": "ended"'):
        return str(json.loads(line)["why"])
    return line.removeprefix("brickyard: ") if line.startswith("brickyard: ") else ""
