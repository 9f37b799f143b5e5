"""Time zones of sessions, by the names that Java takes. Pure."""

from __future__ import annotations

import datetime
import functools
import re
from zoneinfo import ZoneInfo

_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?")
_SHORT = {  # java.time.ZoneId.SHORT_IDS, as Spark takes them
    "ACT": "Australia/Darwin", "AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo", "AST": "America/Anchorage", "BET": "America/Sao_Paulo", "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare", "CNT": "America/St_Johns", "CST": "America/Chicago", "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa", "ECT": "Europe/Paris", "IET": "America/Indiana/Indianapolis", "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo", "MIT": "Pacific/Apia", "NET": "Asia/Yerevan", "NST": "Pacific/Auckland", "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix", "PRT": "America/Puerto_Rico", "PST": "America/Los_Angeles", "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh", "EST": "-05:00", "MST": "-07:00", "HST": "-10:00", "Z": "+00:00", "UT": "+00:00",
}  # fmt: skip


@functools.lru_cache(maxsize=200)
def zone_of(name: str) -> datetime.tzinfo:
    """The zone of that name. Raises KeyError and ValueError if there is none."""
    known = _SHORT.get(name, name)
    if (match := _OFFSET.fullmatch(known)) is None:
        return ZoneInfo(known)
    hours, minutes, seconds = (int(part or 0) for part in match.groups()[1:])
    size = datetime.timedelta(hours=hours, minutes=minutes, seconds=seconds)
    return datetime.timezone(-size if match[1] == "-" else size)
