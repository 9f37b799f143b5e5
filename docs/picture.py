"""Draws what a command printed as a terminal, in SVG: `COLUMNS=100 ./dev quickstart | ./dev python docs/picture.py TITLE > FILE`.

What is read is drawn, every line of it, and nothing else.
"""

from __future__ import annotations

import inspect
import io
import re
import sys

from rich.console import Console
from rich.text import Text

# Without the fonts that rich would have a browser fetch: pictures in a README load nothing, and any monospaced one will do.
_RICHS: str = inspect.signature(Console.export_svg).parameters["code_format"].default
FORMAT = re.sub(r"@font-face \{\{.*?\}\}\s*", "", _RICHS, flags=re.DOTALL).replace(
    "font-family: Fira Code, monospace", "font-family: ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
)


def picture(printed: str, title: str) -> str:
    """The SVG of a terminal that is as wide as the longest line."""
    lines = [Text.from_ansi(line).plain.rstrip() for line in printed.rstrip("\n").split("\n")]
    console = Console(record=True, width=max(map(len, lines)) + 1, file=io.StringIO(), legacy_windows=False)
    for line in lines:
        console.print(Text(line, style=_style(line)), no_wrap=True, overflow="ignore")
    return console.export_svg(title=title, code_format=FORMAT, unique_id="terminal")


def _style(line: str) -> str:
    if re.fullmatch(r"[a-z]+ \.\.\.", line):
        return "bold cyan"
    return "green" if line.endswith("RUNNING") or line.startswith("Spark ") else ""


if __name__ == "__main__":
    sys.stdout.write(picture(sys.stdin.read(), " ".join(sys.argv[1:])) + "\n")
