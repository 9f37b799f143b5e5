"""What may begin a job's runs besides people. Pure: raises only InvalidParameterValue."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.run import TriggerType
from brickyard.features.jobs.arrivals import Waits
from brickyard.features.jobs.model import Condition, JobSettings, PauseStatus, TaskRetryMode, TriggerSettings
from brickyard.plan.submit import refuse

WAYS = ("schedule", "trigger", "continuous")  # at most one of these
MAX_TABLES = 10
SHORTEST_S, LONGEST_S = 60, 30 * 86_400  # of the two waits
_KINDS = ("periodic", "file_arrival", "table_update")
_REFUSED = {"model": "there are no registered models", "table": "use table_update"}
_NAME = re.compile(r"[^\s./\x00-\x1f]{1,255}(\.[^\s./\x00-\x1f]{1,255}){1,2}")
_SHOWN = 140


class Place(NamedTuple):
    """A directory of the workspace's files: the tree, "dbfs" or "Volumes", and the names below it."""

    tree: str
    parts: tuple[str, ...]


def check(settings: JobSettings) -> None:
    """Raises unless at most one thing begins runs, and makes sense."""
    given = [name for name in WAYS if getattr(settings, name) is not None]
    if len(given) > 1:
        raise InvalidParameterValue(f"{given[0]} and {given[1]} are both given. Leave one out.")
    if (trigger := settings.trigger) is not None:
        refuse(trigger, _REFUSED, "trigger.")
        kinds = [name for name in _KINDS if getattr(trigger, name) is not None]
        if len(kinds) > 1:
            raise InvalidParameterValue(f"trigger.{kinds[0]} and trigger.{kinds[1]} are both given. Leave one out.")
        if (files := trigger.file_arrival) is not None:
            place(files.url)
            _check_waits("trigger.file_arrival", waits(trigger))
        if (tables := trigger.table_update) is not None:
            if not 1 <= len(set(tables.table_names)) <= MAX_TABLES:
                raise InvalidParameterValue(f"trigger.table_update.table_names must be 1 to {MAX_TABLES} tables.")
            for name in tables.table_names:
                if not _NAME.fullmatch(name):
                    raise InvalidParameterValue(
                        f"trigger.table_update: {name[:_SHOWN]!r} is not a name of the form catalog.schema.table."
                    )
            _check_waits("trigger.table_update", waits(trigger))
    if settings.continuous is not None:
        _check_continuous(settings)


def watches(settings: JobSettings) -> bool:
    """Whether the job waits for files or tables."""
    trigger = settings.trigger
    return trigger is not None and (trigger.file_arrival is not None or trigger.table_update is not None)


def retries_tasks(settings: JobSettings) -> bool:
    """Whether tasks that fail are tried again, before the whole continuous job is."""
    return settings.continuous is not None and settings.continuous.task_retry_mode is TaskRetryMode.ON_FAILURE


def is_paused(settings: JobSettings) -> bool:
    """Whether what begins runs is paused."""
    way = settings.schedule or settings.trigger or settings.continuous
    return way is not None and way.pause_status is PauseStatus.PAUSED


def type_of(settings: JobSettings) -> TriggerType:
    """What its runs say has begun them."""
    if settings.continuous is not None:
        return TriggerType.CONTINUOUS
    if settings.trigger is not None and settings.trigger.file_arrival is not None:
        return TriggerType.FILE_ARRIVAL
    if settings.trigger is not None and settings.trigger.table_update is not None:
        return TriggerType.TABLE
    return TriggerType.PERIODIC


def waits(trigger: TriggerSettings) -> Waits:
    """The two waits of a trigger by files or tables."""
    watched = trigger.file_arrival or trigger.table_update
    if watched is None:
        return Waits(0, 0)
    between, quiet = watched.min_time_between_triggers_seconds, watched.wait_after_last_change_seconds
    return Waits(1000 * (between or 0), 1000 * (quiet or 0))


def place(url: str) -> Place:
    """The directory that is watched."""
    path = "/" + url.removeprefix("dbfs:").lstrip("/") if url.startswith("dbfs:") else url
    parts = tuple(each for each in path.split("/") if each)
    if not path.startswith("/") or ".." in parts or "." in parts or any(ord(each) < 32 for each in url) or len(url) > 4096:
        parts = ()
    if parts[:1] == ("Volumes",) and len(parts) >= 4:
        return Place("Volumes", parts[1:])
    if url.startswith("dbfs:") and parts and parts[0] not in ("Volumes", "Workspace"):
        return Place("dbfs", parts)
    raise InvalidParameterValue(
        f"trigger.file_arrival.url {url[:_SHOWN]!r} is not supported: give a directory like /Volumes/CATALOG/SCHEMA/VOLUME/ or"
        " dbfs:/DIRECTORY/."
    )


def enough(trigger: TriggerSettings, tables: Iterable[str]) -> bool:
    """Whether new versions of these tables are what the trigger waits for."""
    found, wanted = set(tables), trigger.table_update
    if wanted is not None and wanted.condition is Condition.ALL_UPDATED:
        return found >= set(wanted.table_names)
    return bool(found)


def _check_waits(where: str, found: Waits) -> None:
    names = ("min_time_between_triggers_seconds", "wait_after_last_change_seconds")
    for name, value in zip(names, (found.between_ms // 1000, found.quiet_ms // 1000), strict=True):
        if value and not SHORTEST_S <= value <= LONGEST_S:
            raise InvalidParameterValue(f"{where}.{name} is {value}; it must be between {SHORTEST_S} and {LONGEST_S}.")


def _check_continuous(settings: JobSettings) -> None:
    continuous = settings.continuous
    if continuous is None:
        return
    refuse(continuous, {"maintenance_window": "there are no maintenance windows"}, "continuous.")
    if settings.max_concurrent_runs not in (None, 1):
        raise InvalidParameterValue(f"max_concurrent_runs is {settings.max_concurrent_runs}; that of a continuous job is 1.")
    if any(task.max_retries for task in settings.tasks or ()) or settings.max_retries:
        raise InvalidParameterValue("max_retries is not supported in a continuous job. Use task_retry_mode.")
