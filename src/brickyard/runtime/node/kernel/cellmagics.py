"""`%sh` and `%md` as cells have them on Databricks."""

from __future__ import annotations

from collections.abc import Callable
from subprocess import CalledProcessError
from typing import Any

from IPython.core.magic import no_var_expand

from .markdown import to_html


def make_sh_magic(shell: Any) -> Callable[[str, str], None]:
    """Makes the cell magic: bash runs the cell, which fails only with `-e`, or if bash itself was killed."""

    @no_var_expand  # $name is the shell's
    def sh(line: str, cell: str) -> None:
        """%sh [-e]: run a cell with bash. With -e the first command that fails ends the cell with an error."""
        first, _, rest = line.strip().partition(" ")
        strict = first == "-e"
        if strict:
            line = rest
        elif first.startswith("--"):  # IPython's own options
            shell.run_cell_magic("bash", line, cell)
            return
        try:
            shell.run_cell_magic("bash", "-e" if strict else "", f"{line}\n{cell}")
        except CalledProcessError as error:
            if strict or error.returncode < 0:
                raise

    return sh


def make_md_magic(display_html: Callable[[str], None]) -> Callable[[str, str], None]:
    """Makes the cell magic: Markdown as HTML."""

    def md(line: str, cell: str) -> None:
        """%md: show Markdown."""
        display_html(to_html(f"{line}\n{cell}"))

    return md
