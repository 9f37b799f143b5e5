"""Finds the line of a JVM's output that says why it ended. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

_ERROR = re.compile(
    r"^(?P<how>Exception in thread \"[^\"]*\" |Caused by: |(?P<cut>\.\.\. )?)"
    r"(?P<class>(?:[\w$-]+\.)+[\w$]*(?:Exception|Error|Throwable|Failure)[\w$]*)(?:: (?P<message>.*))?$"
)
_FRAME = re.compile(r"^\s*(?:at |\.\.\. \d+ (?:more|common))|^\s*Suppressed: ")
_LOGGED = re.compile(
    r"^\d{2,4}[-/]\d\d[-/]\d\d \d\d:\d\d:\d\d(?:[.,]\d+)? "
    r"(?P<level>TRACE|DEBUG|INFO|WARN|ERROR|FATAL) (?P<name>[^\s:]+): (?P<text>.*)$"
)
# What Java prints when it does not come to run a program.
_JAVA = re.compile(
    r"^(?:Error: (?!A fatal exception|Could not create the Java)(?P<error>.+)|(?P<vm>Error occurred during initialization of .*)"
    r"|(?P<other>(?:Unrecognized|Invalid|Conflicting|Improperly specified|Multiple|Error opening zip|Could not find agent) .+))$"
)
_WRAPPERS = re.compile(r"Error while instantiating|^(?:java|org|py4j|scala)\.[\w.$]+(?:Exception|Error)\b")
_SHUTDOWN = ("ShutdownHookManager", "SparkContext", "Utils")  # what they warn of while Spark ends is no reason


class _Found(NamedTuple):
    name: str  # the class
    message: str

    @property
    def text(self) -> str:
        """The message; with the class where it is no sentence, such as a path alone."""
        if not self.message:
            return self.name
        return self.message if " " in self.message else f"{self.name.rpartition('.')[2]}: {self.message}"


def headline(lines: Iterable[str]) -> str:
    """Returns the reason in the lines, or "" if none is there: of the last uncaught exception, or else the last one that was
    logged as an error, the innermost cause; else what Java itself or the log's last error says; else what is neither INFO nor a
    stack."""
    text = [line.rstrip() for line in lines]
    for starts in (_uncaught(text), _thrown(text)):
        if found := _reason(text, starts):
            return found.text
    return _java(text) or _logged(text, "FATAL", "ERROR") or _plain(text) or _logged(text, "WARN")


def _uncaught(lines: Sequence[str]) -> int:
    """Returns where the last uncaught exception begins; -1 if there is none."""
    return _last(number for number, line in enumerate(lines) if line.startswith("Exception in thread "))


def _thrown(lines: Sequence[str]) -> int:
    """Returns where the last exception begins that is no cause, and that was not only warned of."""
    found, level = -1, ""
    for number, line in enumerate(lines):
        if (logged := _LOGGED.match(line)) is not None:
            level = logged["level"]
        elif (error := _ERROR.match(line)) is not None and not error["how"] and level in ("", "ERROR", "FATAL"):
            found = number
    return found


def _last(numbers: Iterator[int]) -> int:
    return max(numbers, default=-1)


def _reason(lines: Sequence[str], start: int) -> _Found | None:
    """Returns the innermost cause with a message of the exception that begins there, else the exception."""
    if start < 0:
        return None
    found: list[_Found] = []
    for line in lines[start:]:
        error = _ERROR.match(line)
        if error is not None and (not found or error["how"].startswith("Caused")):
            found.append(_Found(error["class"], (error["message"] or "").strip()))
        elif found and (_LOGGED.match(line) is not None or line.startswith("Exception in thread ")):
            break
    said = [each for each in found if each.message and not _WRAPPERS.search(each.message)]
    return said[-1] if said else found[-1] if found else None


def _java(lines: Sequence[str]) -> str:
    begun = ""
    for number, line in enumerate(lines):
        found = _JAVA.match(line)
        if found is not None and not found["vm"]:
            return found["error"] or line
        if found is not None and not begun:  # what follows may say more than this: of an agent, stderr does
            after = next((each for each in lines[number + 1 :] if each), "")
            begun = f"{line}: {after}" if after else line
    return begun


def _logged(lines: Sequence[str], *levels: str) -> str:
    matches = [found for found in map(_LOGGED.match, lines) if found is not None and found["level"] in levels]
    found = [each["text"] for each in matches if each["level"] != "WARN" or each["name"] not in _SHUTDOWN]
    return found[-1] if found else ""


def _plain(lines: Sequence[str]) -> str:
    """Returns the first line that is neither logged nor part of a stack."""
    return next((line for line in lines if line.strip() and not _LOGGED.match(line) and not _FRAME.match(line)), "")
