"""dbt tasks: what may be one, and the arguments of its commands. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.tasks import DbtTask, Source

MAX_COMMANDS = 10
MAX_BYTES = 10_000
_SHOWN = 140
_REFERENCE = re.compile(r"\{\{\s*([^{}]*?)\s*\}\}")


def check(where: str, task: DbtTask) -> None:
    """Raises InvalidParameterValue for what cannot be a dbt task."""
    if task.source is Source.GIT:
        raise InvalidParameterValue(f"{where}source GIT is not supported: copy the project to the workspace.")
    if not task.warehouse_id:
        raise InvalidParameterValue(f"{where}dbt_task needs warehouse_id: dbt runs its SQL on a SQL warehouse.")
    if task.profiles_directory:
        raise InvalidParameterValue(
            f"{where}profiles_directory is not supported: the profile is made for warehouse_id. Use --profiles-dir in a command."
        )
    path = task.project_directory or ""
    if not path.startswith("/") or ".." in path.split("/") or "\0" in path:
        raise InvalidParameterValue(
            f"{where}project_directory {path[:_SHOWN]!r} must be an absolute path in the workspace, without '..'."
        )
    if not 1 <= len(task.commands) <= MAX_COMMANDS or sum(map(len, task.commands)) > MAX_BYTES:
        raise InvalidParameterValue(f"{where}commands must be 1 to {MAX_COMMANDS} commands of dbt.")
    for each in task.commands:
        if (words := arguments(each, where))[:1] != ["dbt"] or len(words) < 2:
            raise InvalidParameterValue(f"{where}command {each[:_SHOWN]!r} must begin with dbt and say what it does.")


def arguments(command: str, where: str = "") -> list[str]:
    """The words of a command, as a shell without expansions splits them. A reference is never split. Raises
    InvalidParameterValue."""
    try:
        return shlex.split(_REFERENCE.sub(r"{{\1}}", command))
    except ValueError as error:
        raise InvalidParameterValue(f"{where}command {command[:_SHOWN]!r} cannot be read: {error}.") from error


def commands_of(task: DbtTask) -> Sequence[Sequence[str]]:
    """The arguments of dbt, for each command."""
    return [arguments(each)[1:] for each in task.commands]
