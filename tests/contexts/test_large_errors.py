"""Errors with huge messages are shown shortened, as the errors that they are."""

from __future__ import annotations

import atexit
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from brickyard.runtime.node.contexts.client import Event
from brickyard.runtime.node.contexts.command import Command
from brickyard.runtime.node.contexts.context import Context
from brickyard.runtime.node.kernel.display import bound_text
from brickyard.runtime.node.kernel.largeerrors import LIMIT, bound_errors, bounded
from brickyard.runtime.node.kernel.task import TaskFailed
from tests.support.patience import until

HUGE = 3_000_000
SMALL = 4 * LIMIT


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    config = Config()
    config.HistoryManager.enabled = False
    config.HistoryManager.hist_file = ":memory:"
    made: Any = InteractiveShell(config=config)  # type: ignore[no-untyped-call] # IPython's own
    made.shown = []
    made._showtraceback = lambda kind, error, lines: made.shown.append((kind.__name__, str(error), "\n".join(lines)))
    bound_errors(made)
    yield made
    atexit.unregister(made.atexit_operations)
    made.atexit_operations()


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (f"raise ValueError('x' * {HUGE})", "ValueError"),
        (f"raise KeyError(('y' * {HUGE},))", "KeyError"),
        (f"class Mine(BaseException):\n    def __str__(self): return 'z' * {HUGE}\nraise Mine", "Mine"),
        (f"try:\n    raise OSError('x' * {HUGE})\nexcept OSError as e:\n    raise ValueError('small') from e", "ValueError"),
        (f"error = ValueError('small')\nerror.add_note('n' * {HUGE})\nraise error", "ValueError"),
        (f"raise ExceptionGroup('all', [ValueError('x' * {HUGE}), OSError('small')])", "ExceptionGroup"),
        (f"raise SyntaxError('x' * {HUGE})", "SyntaxError"),
        (f"a = ValueError('x' * {HUGE})\nb = ValueError('b')\na.__cause__, b.__cause__ = b, a\nraise a", "ValueError"),
    ],
    ids=["message", "repr", "str", "cause", "note", "group", "syntax", "circle"],
)
def test_a_huge_message_is_shown_shortened(shell: Any, code: str, name: str) -> None:
    result = shell.run_cell(code)
    [(kind, message, text)] = shell.shown
    assert kind == name
    assert len(message) < SMALL and len(text) < SMALL
    assert "characters left out" in message + text
    assert type(result.error_in_exec).__name__ == name
    assert len(str(result.error_in_exec)) < SMALL, "the answer to the command is made of it"


def test_other_errors_are_shown_as_ever(shell: Any) -> None:
    result = shell.run_cell("try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('x') from e")
    [(kind, message, text)] = shell.shown
    assert (kind, message) == ("ValueError", "x")
    assert "ZeroDivisionError" in text
    assert type(result.error_in_exec) is ValueError
    error = ValueError("x")
    assert bounded(error) is error


def test_a_huge_value_is_cut_off_before_it_is_sent(shell: Any) -> None:
    bound_text(shell.display_formatter, LIMIT)
    bundle, _ = shell.display_formatter.format("x" * HUGE)
    assert len(bundle["text/plain"]) == LIMIT
    assert shell.display_formatter.format("small")[0]["text/plain"] == "'small'"


def test_a_task_carries_no_huge_message() -> None:
    failed = TaskFailed(ValueError("x" * HUGE), text="y" * HUGE)
    assert len(str(failed)) < SMALL and len(str(failed.error)) < SMALL and len(failed.text) < SMALL
    assert type(failed.error).__name__ == "ValueError"


class LargeAnswer:
    """A kernel whose answer is too large to be read."""

    def poll(self) -> int | None:
        return None

    def belong(self, context_id: str, user: str, ask: Any) -> None:
        """It asks nothing."""

    def execute(self, code: str, command_id: str, widgets: Mapping[str, str]) -> str:
        self._events = [Event("shell", "oversized", "", {}), Event("iopub", "status", command_id, {"execution_state": "idle"})]
        return command_id

    def receive(self, timeout_s: float) -> Event | None:
        return self._events.pop(0) if self._events else None

    def interrupt(self) -> None:
        """It runs nothing."""

    def end(self, *, keep: bool = False) -> None:
        """It has ended."""

    def log_tail(self) -> str:
        return ""


def test_a_command_whose_answer_is_too_large_has_failed() -> None:
    kernel: Any = LargeAnswer()
    context = Context(context_id="c", language="python", user="", kernel=kernel, owner=MagicMock())
    try:
        context.submit(Command(command_id="k", language="python", code="1"))
        until(lambda: context.command_status("k")["status"] in ("Finished", "Error"))
        assert context.command_status("k")["status"] == "Finished"
        assert context.command_status("k")["results"]["resultType"] == "error"
    finally:
        context.destroy()
        context.join()
