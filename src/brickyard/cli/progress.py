"""Progress of a command: permanent lines and, on a terminal, a spinner with the elapsed seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from brickyard.runtime.progress import Report

Say = Callable[[str], None]


class Shown:
    """Call it with a line to print. `now` shows the current activity: on a terminal in place, otherwise not at all."""

    def __init__(self, say: Say, *, now: Say = lambda _: None) -> None:
        self._say = say
        self.now = now

    def __call__(self, line: str) -> None:
        self._say(line)


@contextmanager
def working(what: str, *, console: Console | None = None, silent: bool = False) -> Iterator[Shown]:
    """Shows that `what` is in progress until the block ends. Yields a function that prints a permanent line.

    If the output is not a terminal, only those lines appear. `silent`: nothing appears, for output that programs read.
    """
    if silent:
        yield Shown(lambda _: None)
        return
    from rich.console import Console  # noqa: PLC0415 - only for commands that take a while

    shown = console or Console(highlight=False, soft_wrap=True)

    def say(line: str) -> None:
        shown.print(line, markup=False)

    if not shown.is_terminal:
        yield Shown(say)
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415 - as above

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=shown, transient=True) as progress:
        task = progress.add_task(what, total=None)
        yield Shown(say, now=lambda text: progress.update(task, description=text))


@contextmanager
def installing(*, console: Console | None = None) -> Iterator[Callable[[Report], None]]:
    """Shows an installation until the block ends: on a terminal as one progress bar, otherwise as one line per step."""
    from rich.console import Console  # noqa: PLC0415 - only for commands that take a while

    shown, head = console or Console(highlight=False, soft_wrap=True), ""
    if not shown.is_terminal:

        def lines(report: Report) -> None:
            nonlocal head
            for text in (report.head if report.head != head else "", report.note):
                if text:
                    shown.print(text, markup=False)
            head = report.head

        yield lines
        return
    from rich.progress import BarColumn, Progress, TextColumn  # noqa: PLC0415 - as above

    # Amount and time have fixed positions, so that nothing jumps; everything fits into 80 columns.
    columns = (
        TextColumn("{task.description:34}", markup=False),
        BarColumn(bar_width=12),
        TextColumn("{task.fields[amount]:>15}", markup=False),
        TextColumn("{task.fields[left]}", markup=False),
    )
    with Progress(*columns, console=shown, transient=True) as progress:
        task = progress.add_task("", total=1.0, amount="", left="")

        def bar(report: Report) -> None:
            nonlocal head
            if not head:
                shown.print(report.head.partition(",")[0], markup=False)
            head = report.head.partition(", ")[2]
            progress.update(task, description=head, completed=report.share, amount=report.amount, left=report.left)
            if report.note:
                shown.print(report.note, markup=False, soft_wrap=False)  # wraps between words

        yield bar
