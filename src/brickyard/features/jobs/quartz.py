"""Quartz's cron expressions, and when they come. Pure.

Quartz has seconds first, counts weekdays from 1 (Sunday), and writes `?` for a day that the other field decides. Source: the
documentation of org.quartz.CronExpression. Changes of the clock: a time that is skipped runs right after the change, a time that
comes twice runs once, unless the expression runs every hour.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from brickyard.domain.errors import InvalidParameterValue

_WEEKDAY = re.compile(r"(?<![\d#/])[1-7](?=$|[-,#L/])")
_SHOWN = 140


def next_ms(expression: str, timezone: str, *, after_ms: int) -> int:
    """When the expression comes next after that time, in epoch milliseconds; 0: never. Raises InvalidParameterValue."""
    try:
        zone = ZoneInfo(timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidParameterValue(
            f"timezone_id {timezone[:_SHOWN]!r} is no time zone. Use a name such as Europe/Berlin or UTC."
        ) from None
    fields = _converted(expression)
    # CronSim knows changes of the clock only without seconds: those of most expressions are one number, and are added.
    second, fields = (int(fields[0]), fields[1:]) if fields[0].isdigit() and int(fields[0]) < 60 else (0, fields)
    after = datetime.fromtimestamp(after_ms / 1000 - second, UTC).astimezone(zone)
    try:
        following = next(CronSim(" ".join(fields), after), None)
    except CronSimError as error:
        raise InvalidParameterValue(f"quartz_cron_expression {expression[:_SHOWN]!r} cannot be read: {error}.") from error
    return 0 if following is None else round((following.timestamp() + second) * 1000)


def _converted(expression: str) -> list[str]:
    """The fields of the expression, with the weekdays of cron."""
    said = f"quartz_cron_expression {expression[:_SHOWN]!r}"
    fields = expression.upper().split()
    if not 6 <= len(fields) <= 7 or len(expression) > 256:
        raise InvalidParameterValue(
            f"{said} must have six or seven fields: second, minute, hour, day of month, month, day of week, year."
        )
    *head, day, month, weekday = fields[:6]
    if fields[6:] not in ([], ["*"]):
        raise InvalidParameterValue(f"{said} has a year, which is not supported: leave it out.")
    if "W" in day and day != "LW":
        raise InvalidParameterValue(f"{said} has a nearest weekday (W), which is not supported: use LW or a day.")
    if (day == "?") == (weekday == "?"):
        raise InvalidParameterValue(f"{said} must have ? for the day of month or for the day of week, and only for one of them.")
    if re.search(r"\d-L|L-", day + weekday):
        raise InvalidParameterValue(f"{said} counts days from the end of a month, which is not supported: use L or a day.")
    days = _WEEKDAY.sub(lambda match: str(int(match[0]) - 1), weekday.replace("?", "*"))
    if days == "L":
        days = "6"  # the last day of a week is Saturday
    return [*head, day.replace("?", "*"), month, days]
