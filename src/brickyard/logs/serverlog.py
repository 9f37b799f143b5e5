"""The server's log: one line per event on standard error, for people or as JSON, without secrets."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO, cast

import structlog
from structlog.typing import EventDict, Processor

from brickyard.logs.strays import capture

LOG_LIMIT = 20 * 2**20  # bytes of server.log after which a new file is begun
_SECRET_NAME = re.compile(r"token|secret|password|authorization|credential", re.IGNORECASE)
_SECRET_TEXT = (
    (re.compile(r"(dapi|dose)[0-9a-f]{8,}"), r"\1***"),
    (re.compile(r"(?i)(bearer )[^\s\"']+"), r"\1***"),
    (re.compile(r"(://[^:/@\s]*:)[^@\s]+@"), r"\1***@"),
)


def configure_process(*, level: str, form: str) -> tuple[int, ...]:
    """Configures the log of a process that has nothing else to write. Call it once. Returns the descriptors that lead to the log.
    If it is JSON, what anything writes to standard output or error becomes entries of it, too."""
    if form != "json":
        configure(level=level, form=form)
        return (1, 2)
    log = capture(lambda text: structlog.get_logger("brickyard").warning("output", text=text))
    configure(level=level, form=form, stream=os.fdopen(log, "w", buffering=1, encoding="utf-8", errors="backslashreplace"))
    return (log,)


def configure(*, level: str, form: str, stream: TextIO | None = None) -> None:
    """Configures structlog and the standard library's logging alike; `form` is console or json. Call it once."""
    stream = cast(TextIO, _Unfailing(stream or sys.stderr))
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        redact,
    ]
    if form == "json":
        renderer: Processor = structlog.processors.JSONRenderer()
    else:
        colors = stream.isatty() and not os.environ.get("NO_COLOR")
        renderer = structlog.dev.ConsoleRenderer(colors=colors, pad_event_to=0, sort_keys=False)
    number = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(stream),
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared, processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer]
        )
    )
    if form == "json":  # Python's own output too: every line is JSON
        logging.captureWarnings(True)
        sys.excepthook = lambda kind, error, trace: _report("crashed", error)
        sys.unraisablehook = lambda raised: _report("unraisable", raised.exc_value)
        threading.excepthook = lambda raised: _report("thread_crashed", raised.exc_value)
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(max(number, logging.WARNING))  # INFO messages of libraries interest only their authors
    # Anyone can trigger these warnings at will: one line per invalid request, with advice for users of uvicorn.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    logging.getLogger("python_multipart").setLevel(logging.ERROR)  # warns of broken forms; their senders get the error anyway


def _report(event: str, error: BaseException | None) -> None:
    structlog.get_logger("brickyard").error(event, exc_info=error)


class _Unfailing:
    """A stream whose writes never fail, even on a full disk: failed logging must not stop the work."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.isatty = stream.isatty

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.flush()


def rotate(path: Path, *, limit: int, outputs: Sequence[int] = (1, 2)) -> bool:
    """Starts a new file if the log has more than `limit` bytes; the old one becomes NAME.1, replacing the one before.

    `outputs` are the descriptors that write to it (`configure_process`); they switch to the new file while everything keeps
    running. Never raises.
    """
    with contextlib.suppress(OSError):
        if path.stat().st_size <= limit:
            return False
        path.replace(path.with_name(f"{path.name}.1"))
        fresh = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            for output in outputs:
                os.dup2(fresh, output)
        finally:
            os.close(fresh)
        return True
    return False


def redact(logger: Any, method: str, event: EventDict) -> EventDict:
    """Blanks values with secret names, and anything in text that looks like a token or a password in a URL."""
    return {key: _redacted(str(key), value) for key, value in event.items()}


def _redacted(name: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if value and name != "event" and _SECRET_NAME.search(name):
        return "***"
    for pattern, instead in _SECRET_TEXT:
        value = pattern.sub(instead, value)
    return value
