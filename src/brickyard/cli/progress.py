"""What a command shows while it works: lines that stay, and on a terminal a spinner with the seconds gone by."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

Say = Callable[[str], None]


@contextmanager
def working(what: str, *, console: Console | None = None) -> Iterator[Say]:
    """Show that `what` goes on until the block is left. Yields a function that prints a line which stays.

    Where output is no terminal, there are those lines and nothing else.
    """
    from rich.console import Console  # noqa: PLC0415 - only for commands that take a while

    shown = console or Console(highlight=False, soft_wrap=True)

    def say(line: str) -> None:
        shown.print(line, markup=False)

    if not shown.is_terminal:
        yield say
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415 - as above

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=shown, transient=True) as progress:
        progress.add_task(what, total=None)
        yield say
