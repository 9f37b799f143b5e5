"""A command's results, in the shape of the command API. Pure: takes a kernel's messages, returns one JSON object.

Shapes (absent keys are absent, `LIMIT` bounds sizes, all strings are valid Unicode), with `values` that a task of a run has set:

    text    {"resultType": "text", "data": str, "truncated"?: true}
    HTML    {"resultType": "text", "data": str, "isHtml": true, "summary"?: printed text}
    error   {"resultType": "error", "summary": html, "cause": str, "data"?: text printed before the error}
    image   {"resultType": "image", "fileName": "data:image/png;base64,...", "data": the same, "summary"?: printed text}
    images  {"resultType": "images", "fileNames": [...], "summary"?: printed text}
    exit    {"resultType": "text", "data": str, "exited": true, "summary"?: printed text}
    table   {"resultType": "table", "schema": [...], "data": [[...]], "truncated": bool, "isJsonSchema": true, "summary"?}
"""

from __future__ import annotations

import html
import json
import re
from typing import Any

from ..wire import EXIT_MIME, RESTART_MIME, TABLE_MIME, VALUE_MIME

LIMIT = 10 * 1024 * 1024  # bytes of a result as ASCII JSON: it fits on a line of the node host's protocol (16 MiB)
VALUES_LIMIT = 1024 * 1024  # bytes of the values that a task sets, as JSON
SUMMARY_LIMIT = 4_000  # characters
CAUSE_LIMIT = 256 * 1024  # characters
PRINTED_LIMIT = 64 * 1024  # characters of printed text beside a table or an image
PROGRESS_LIMIT = 16 * 1024  # characters of printed text that are told while the command runs
MAX_IMAGES = 50

PLAIN_TRACEBACK = "Traceback (most recent call last):"
HTML_MIME = "text/html"
IMAGE_MIMES = ("image/png", "image/jpeg", "image/gif")

_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x9b[0-?]*[ -/]*[@-~]")
# Blanks of one line: with \s, each of many empty lines would look at all those after it.
_JVM_FRAME = re.compile(
    r"^[ \t]+at [\w.$/<>]+\(.*|^[ \t]*\.\.\. \d+ more[ \t\r]*$|^[ \t]*(?:JVM stacktrace|Driver stacktrace):.*", re.MULTILINE
)
# Of a Python worker or an executor that SIGKILL has ended, Spark can say no more; nor of one that could make no thread (52).
_KILLED = re.compile(r"Python worker exited unexpectedly|Command exited with code (137|52)")
_SURROGATE = re.compile("[\ud800-\udfff]")


def clean(text: str) -> str:
    """Joins surrogates that form pairs and replaces the others, which cannot be written as UTF-8."""
    if _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def clean_json(value: Any) -> Any:
    """Applies `clean` to every string of a JSON value."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [clean_json(item) for item in value]
    if isinstance(value, dict):
        return {clean(str(key)): clean_json(item) for key, item in value.items()}
    return value


def strip_ansi(text: str) -> str:
    return _ANSI.sub("", text)


def encoded_size(text: str) -> int:
    """Returns the size of the text in ASCII JSON, where a character can take six bytes."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return len(text)
    return len(json.dumps(text)) - 2


def shorten(text: str, limit: int) -> str:
    """Returns the text, or its beginning and end with a note between them, in `limit` characters plus the note."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[-half:]}"


def headline(message: str) -> str:
    """Returns the message up to the first frame of a Java stack trace, shortened."""
    found = _JVM_FRAME.search(message)
    if found is not None:
        message = message[: found.start()]
    return shorten(message.strip(), SUMMARY_LIMIT)


def _escape(text: str) -> str:
    return html.escape(text, quote=False)


def error(name: str, message: str, cause: str = "", printed: str = "") -> dict[str, Any]:
    """Returns an error's results. With tags stripped and entities resolved, the summary reads `Name: message`."""
    result: dict[str, Any] = {
        "resultType": "error",
        "summary": f"<span class='ansired'>{_escape(name)}</span>: {_escape(headline(message))}",
        "cause": shorten(strip_ansi(cause) or f"{name}: {message}", CAUSE_LIMIT),
    }
    if printed:
        result["data"] = printed
    cleaned: dict[str, Any] = clean_json(result)
    return cleaned


def cancelled(note: str, printed: str = "") -> dict[str, Any]:
    return error("CommandCancelled", note, note, printed)


class Collector:
    """Combines one command's messages (`take`) into its results (`results`). Holds about `limit` bytes at most."""

    def __init__(self, *, limit: int = LIMIT) -> None:
        self._limit = limit
        self._left = limit
        self._pieces: list[str] = []
        self._images: list[str] = []
        self._table: dict[str, Any] | None = None
        self._html: list[str] = []
        self._exit: str | None = None
        self._values: dict[str, Any] = {}
        self._value_sizes: dict[str, int] = {}  # they count apart from what is printed
        self._error: dict[str, str] | None = None
        self._truncated = False
        self.restarts = False  # the command has asked for another Python process
        self._rest: dict[str, Any] = {}

    def take(self, kind: str, content: dict[str, Any]) -> None:
        """Takes one message of the kernel's output channel; ignores kinds that carry no output."""
        if kind == "stream":
            self._add_text(str(content.get("text", "")))
        elif kind in ("execute_result", "display_data"):
            self._add_data(content.get("data") or {}, shown=kind == "display_data")
        elif kind == "error":
            self._error = {
                "name": str(content.get("ename", "")),
                "message": str(content.get("evalue", "")),
                "cause": "\n".join(str(line) for line in content.get("traceback") or []),
            }

    def answer(self, content: dict[str, Any]) -> None:
        """Takes the kernel's answer to the command. A failure counts even if it could not be shown: IPython may lack what it
        needs for that, and then prints at most a plain traceback."""
        if content.get("status") == "error" and self._error is None and self._exit is None and not self.restarts:
            _, start, trace = self.printed().rpartition(PLAIN_TRACEBACK)
            self._error = {
                "name": str(content.get("ename", "")),
                "message": str(content.get("evalue", "")),
                "cause": start + trace,
            }

    @property
    def exit_value(self) -> str | None:
        """What dbutils.notebook.exit was called with; None if it was not."""
        return self._exit

    @property
    def names_a_kill(self) -> bool:
        """Whether the command has failed because a process of Spark is gone."""
        return self._error is not None and _KILLED.search(self._error["message"]) is not None

    def explain(self, why: str) -> None:
        """Puts the reason first, since long errors are cut."""
        if self._error is not None and why:
            self._error = {name: text if name == "name" else f"{why}\n{text}" for name, text in self._error.items()}

    def go_on(self) -> dict[str, Any]:
        """Returns what another Python process has to do for the command, whose messages are taken next; nothing if it is over."""
        rest, self._rest, self.restarts = self._rest, {}, False
        return rest

    def drop(self) -> None:
        """Records that a message was too large to be read."""
        self._truncated = True

    @property
    def cut(self) -> bool:
        """Whether something was left out."""
        return self._truncated

    def printed(self) -> str:
        text = "".join(self._pieces).replace("\r\n", "\n")
        if text.endswith("\n"):
            text = text[:-1]
        if self._truncated:
            text += f"\n*** The output of one command is limited to {self._limit // 1024} KiB; the rest was dropped. ***"
        return clean(text)

    def results(self) -> dict[str, Any]:
        """Returns the results that the API shows once the command is over."""
        results = self._shown()
        return {**results, "values": self._values} if self._values else results

    def _shown(self) -> dict[str, Any]:
        printed = self.printed()
        if self._exit is not None:
            result = {"resultType": "text", "data": self._exit, "exited": True}
            return {**result, "summary": shorten(printed, PRINTED_LIMIT)} if printed else result
        if self._error is not None:
            return error(self._error["name"], self._error["message"], self._error["cause"], printed)
        if self._table is not None:
            result = {"resultType": "table", "isJsonSchema": True, **self._table}
        elif self._images:
            one = len(self._images) == 1
            result = (
                {"resultType": "image", "fileName": self._images[0], "data": self._images[0]}
                if one
                else {
                    "resultType": "images",
                    "fileNames": self._images,
                }
            )
        elif self._html:
            result = {"resultType": "text", "data": "\n".join(self._html), "isHtml": True}
        else:
            return {"resultType": "text", "data": printed, **({"truncated": True} if self._truncated else {})}
        if printed:
            result["summary"] = shorten(printed, PRINTED_LIMIT)
        return result

    def printed_last(self, limit: int = PROGRESS_LIMIT) -> str:
        """Returns the last lines of the printed text, in `limit` characters. May be called from another thread. Only whole lines:
        the agent hides secrets line by line, and half of one is another text."""
        pieces, size = self._pieces, 0
        first = len(pieces)
        while first > 0 and size <= limit:
            first -= 1
            size += len(pieces[first])
        text = clean(strip_ansi("".join(pieces[first:])))
        if first == 0 and len(text) <= limit:
            return text
        _, end, rest = text[-limit:].replace("\r", "\n").partition("\n")
        return rest if end else ""

    def _add_text(self, text: str) -> None:
        if not text or self._left <= 0:
            self._truncated = self._truncated or bool(text)
            return
        if len(text) > self._left or encoded_size(text) > self._left:
            text = self._fitting(text)
            self._truncated = True
        self._pieces.append(text)
        self._left = 0 if self._truncated else self._left - encoded_size(text)

    def _fitting(self, text: str) -> str:
        """Returns the longest beginning that fits into the remaining space (by halving: sizes are not proportional to
        lengths)."""
        low, high = 0, min(len(text), self._left)
        while low < high:
            middle = (low + high + 1) // 2
            if encoded_size(text[:middle]) <= self._left:
                low = middle
            else:
                high = middle - 1
        return text[:low]

    def _add_line(self, text: str) -> None:
        if self._pieces and not self._pieces[-1].endswith("\n"):
            text = "\n" + text
        self._add_text(text + "\n")

    def _add_data(self, data: dict[str, Any], *, shown: bool) -> None:
        """`shown`: by a call of `display`, not as the value of the last line, which stays text if it has one."""
        if EXIT_MIME in data:
            value = str((data[EXIT_MIME] or {}).get("value", ""))
            if encoded_size(value) > self._limit:
                self._error = {
                    "name": "ValueError",
                    "message": f"dbutils.notebook.exit was given {len(value)} characters; a result holds {self._limit}."
                    " Write the value to a file and exit with its path.",
                    "cause": "",
                }
            else:
                self._exit = clean(value)
        elif VALUE_MIME in data:
            self._add_value(data[VALUE_MIME] or {})
        elif RESTART_MIME in data:
            self.restarts = True
            self._rest = data[RESTART_MIME] or {}
        elif TABLE_MIME in data:
            self._add_table(data[TABLE_MIME])
        elif any(mime in data for mime in IMAGE_MIMES):
            mime = next(mime for mime in IMAGE_MIMES if mime in data)
            self._add_image(f"data:{mime};base64,{''.join(str(data[mime]).split())}")
        elif HTML_MIME in data and (shown or str(data.get("text/plain", "<IPython")).startswith("<IPython")):
            self._add_html(str(data[HTML_MIME]))
        elif "text/plain" in data:
            self._add_line(str(data["text/plain"]))

    def _add_value(self, value: dict[str, Any]) -> None:
        key = clean(str(value.get("key", "")))
        sizes = {**self._value_sizes, key: len(json.dumps(value))}
        if sum(sizes.values()) <= VALUES_LIMIT:  # the kernel limits them, so a larger one has another origin
            self._values[key], self._value_sizes = clean_json(value.get("value")), sizes

    def _add_html(self, text: str) -> None:
        size = encoded_size(text)
        if size > self._left:
            self._truncated = True
            return
        self._html.append(clean(text))
        self._left -= size

    def _add_table(self, table: dict[str, Any]) -> None:
        if len(json.dumps(table)) > self._limit:  # the kernel limits its tables, so this one has another origin
            self._truncated = True
            return
        self._table = clean_json(
            {"schema": table.get("schema") or [], "data": table.get("data") or [], "truncated": bool(table.get("truncated"))}
        )

    def _add_image(self, uri: str) -> None:
        size = 2 * len(uri)  # a single image appears twice
        if len(self._images) >= MAX_IMAGES or size > self._left:
            self._truncated = True
            return
        self._images.append(uri)
        self._left -= size
