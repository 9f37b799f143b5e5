"""Errors with messages as large as memory: what shows one must not copy all of it, again and again."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

LIMIT = 128 * 1024  # characters of a message, or of a note beside it
LINKS = 50  # errors that are shown with one: its causes, and the members of a group
NOTES = 20  # also members of a group
SHOWN = 1_000  # characters of a member's message


def shorten(text: str, limit: int = LIMIT) -> str:
    """Returns the text, or its beginning and its end with a note between them."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[-half:]}"


def bounded(error: BaseException) -> BaseException:
    """Returns the error, or one that shows as it does with shortened messages, if one of them is too large to be shown."""
    links = _links(error)
    if not any(_is_large(each) for each in links):
        return error
    made = {id(each): _stand_in(each) for each in links}
    for each in links:
        shown = made[id(each)]
        shown.__cause__ = made.get(id(each.__cause__))
        shown.__context__ = made.get(id(each.__context__))
        shown.__suppress_context__ = each.__suppress_context__
    return made[id(error)]


def bound_errors(shell: Any) -> None:
    """Has IPython's shell show errors so, and give them so to whoever asks for a command's outcome."""
    show = shell.showtraceback

    def show_bounded(exc_tuple: Any = None, *args: Any, **options: Any) -> None:
        _, error, trace = exc_tuple or sys.exc_info()
        shown = bounded(error) if error is not None else None
        if shown is error:
            show(exc_tuple, *args, **options)
        else:
            show((type(shown), shown, trace), *args, **options)

    def bound_outcome(result: Any) -> None:
        for name in ("error_before_exec", "error_in_exec"):
            error = getattr(result, name, None)
            if error is not None:
                setattr(result, name, bounded(error))

    shell.showtraceback = show_bounded
    shell.events.register("post_run_cell", bound_outcome)


def _links(error: BaseException) -> list[BaseException]:
    """Returns the error and those that are shown with it, each once."""
    found: dict[int, BaseException] = {}
    ahead: list[BaseException | None] = [error]
    while ahead and len(found) < LINKS:
        each = ahead.pop(0)
        if each is not None and id(each) not in found:
            found[id(each)] = each
            ahead += [each.__cause__, each.__context__]
            if isinstance(each, BaseExceptionGroup):
                ahead += each.exceptions
    return list(found.values())


def _text(error: BaseException) -> str:
    with contextlib.suppress(Exception):
        return str(error)
    return "<exception str() failed>"


def _notes(error: BaseException) -> list[str]:
    notes = getattr(error, "__notes__", None)
    return [str(note) for note in notes[: NOTES + 1]] if isinstance(notes, list) else []


def _is_large(error: BaseException) -> bool:
    notes = _notes(error)
    return len(_text(error)) > LIMIT or len(notes) > NOTES or any(len(note) > LIMIT for note in notes)


def _stand_in(error: BaseException) -> BaseException:
    text = _text(error)
    if isinstance(error, BaseExceptionGroup):  # which is shown in one piece
        members = [f"  {type(each).__name__}: {shorten(_text(each), SHOWN)}" for each in error.exceptions[:NOTES]]
        text = "\n".join([shorten(text), *members])
    shown = _named(error, shorten(text))
    shown.__traceback__ = error.__traceback__
    if notes := _notes(error)[:NOTES]:
        shown.__notes__ = [shorten(note) for note in notes]
    return shown


def _named(error: BaseException, text: str) -> BaseException:
    """Returns an error whose class has the name of that one's."""
    kind = type(error)
    fields = {"__module__": kind.__module__, "__qualname__": kind.__qualname__[:LIMIT], "__str__": lambda _: text}
    made: BaseException = type(kind.__name__[:LIMIT], (Exception,), fields)()
    return made
