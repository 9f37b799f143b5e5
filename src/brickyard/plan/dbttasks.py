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
    _check_profiles(where, task)
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


def _check_profiles(where: str, task: DbtTask) -> None:
    """The profile is made for the warehouse, or the project has one."""
    profiles = task.profiles_directory or ""
    if task.warehouse_id and profiles:
        raise InvalidParameterValue(
            f"{where}profiles_directory and warehouse_id are both given: the profile is made for the warehouse. Leave one out."
        )
    if not task.warehouse_id and (given := [name for name in ("catalog", "schema") if getattr(task, name)]):
        raise InvalidParameterValue(f"{where}{given[0]} needs warehouse_id: without one, the project's profiles.yml has it.")
    if profiles.startswith("/") or ".." in profiles.split("/") or "\0" in profiles:
        raise InvalidParameterValue(
            f"{where}profiles_directory {profiles[:_SHOWN]!r} must be a path in project_directory, without '..'."
        )


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
