"""Cells of notebooks, and the code that a kernel runs for each: of the API's commands and of the workspace's notebooks. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

COMMENTS = {"python": "#", "sql": "--", "scala": "//", "r": "#"}
_HEADER, _SEPARATOR, _MAGIC, _TITLE = " Databricks notebook source", " COMMAND ----------", " MAGIC", " DBTITLE"
_ARGUMENT = re.compile(r"""\s\$([A-Za-z_][\w.-]*)\s*=\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s"']+)""")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_MAGIC_LANGUAGES = {
    "%python": "python", "%sql": "sql", "%scala": "scala", "%r": "r", "%md": "markdown", "%md-sandbox": "markdown",
    "%sh": "shell", "%fs": "text", "%run": "text", "%pip": "text",
}  # fmt: skip
RUN_USAGE = '%run PATH $name="value" ...'

# What to do instead of a cell in a language that no context runs.
_OTHER_LANGUAGES = {
    "r": "R code runs as a program: write it to a file and call %sh Rscript FILE, on a node that has R.",
    "scala": "Compile it to a JAR, and run that as a task of a job (spark_jar_task) or call it from Python through spark._jvm.",
}


class RunLine(NamedTuple):
    """What follows `%run`."""

    path: str
    arguments: Mapping[str, str]


def cells_of(source: str, language: str) -> list[str]:
    """Returns the cells of a notebook in the source format, as they are there, without empty ones."""
    comment = COMMENTS[language]
    lines = source.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() == comment + _HEADER:
        del lines[0]
    cells: list[list[str]] = [[]]
    for line in lines:
        if line.rstrip() == comment + _SEPARATOR:
            cells.append([])
        else:
            cells[-1].append(line)
    return [text for text in ("\n".join(each).strip("\n") for each in cells) if text.strip()]


class ShownCell(NamedTuple):
    """A cell as people see it. `language`: as the page highlights it."""

    source: str
    language: str
    title: str


def shown(cell: str, language: str) -> ShownCell:
    """Returns a cell of a notebook, without the marks of the source format."""
    mark = COMMENTS[language] + _TITLE
    titles = [line[len(mark) :].strip() for line in cell.split("\n") if line.startswith(f"{mark} ")]
    title = re.sub(r"^\d+,\s*", "", titles[0]) if titles else ""
    source = unmarked(cell, language) if not titles else unmarked(_untitled(cell, mark), language)
    magic = source.lstrip().split(None, 1)[0] if source.strip() else ""
    return ShownCell(source, _MAGIC_LANGUAGES.get(magic, language), title)


def _untitled(cell: str, mark: str) -> str:
    return "\n".join(line for line in cell.split("\n") if not line.startswith(f"{mark} "))


def unmarked(code: str, language: str) -> str:
    """Returns a cell without the comments in which the source format keeps magics (`# MAGIC %sql`) and titles. Other cells are
    returned as they are."""
    comment = COMMENTS.get(language, "#")
    mark, title = comment + _MAGIC, comment + _TITLE
    lines = code.split("\n")
    first = next((number for number, line in enumerate(lines) if line.strip() and not line.startswith(title)), None)
    if first is None or not _has_mark(lines[first], mark):
        return code
    return "\n".join(line[len(mark) :].removeprefix(" ") if _has_mark(line, mark) else line for line in lines[first:])


def _has_mark(line: str, mark: str) -> bool:
    return line == mark or line.startswith((f"{mark} ", f"{mark}\t", f"{mark}\r"))


def kernel_code(code: str, language: str) -> str:  # noqa: PLR0911 - a table of magics, one line each
    """Returns the code for the kernel. A magic on the first line selects the language, as in a notebook."""
    code = unmarked(code, language)
    first, _, rest = code.lstrip().partition("\n")
    magic, _, tail = first.partition(" ")
    if magic in ("%sql", "%python"):
        language, code = magic[1:], f"{tail}\n{rest}" if tail.strip() else rest
    elif magic == "%sh":
        return f"get_ipython().run_cell_magic('sh', {tail.strip()!r}, {rest + chr(10)!r})"
    elif magic == "%md":
        return f"get_ipython().run_cell_magic('md', '', {f'{tail}{chr(10)}{rest}'!r})"
    elif magic == "%fs":
        return f"get_ipython().run_line_magic('fs', {f'{tail} {rest}'.strip()!r})"
    else:
        other = magic.strip().lstrip("%") if magic.startswith("%") else language
        if other in _OTHER_LANGUAGES:
            what = magic if magic.startswith("%") else f"%{other}"
            return _refusal(f"{what} is not supported: commands are Python or SQL. {_OTHER_LANGUAGES[other]}")
        if magic.startswith("%"):  # Python's, whatever language the notebook has
            return code
    if language == "sql":
        return f"get_ipython().run_cell_magic('sql', '', {code!r})"
    return code


def _refusal(text: str) -> str:
    return f"raise __import__('IPython').core.error.UsageError({text!r})"


def parse_run(line: str) -> RunLine:
    """Parses what follows `%run`. Raises ValueError with the syntax."""
    found = list(_ARGUMENT.finditer(line))
    path = (line[: found[0].start()] if found else line).strip()
    between = _ARGUMENT.sub("", line[found[0].start() :]) if found else ""
    if len(path) > 1 and path[0] == path[-1] and path[0] in "\"'":
        path = path[1:-1]
    if not path or between.strip() or re.search(r"\s\$|[\"']", path):
        raise ValueError(f"%run cannot read {line.strip()!r}. Write: {RUN_USAGE}")
    return RunLine(path, {each.group(1): _value(each.group(2)) for each in found})


def _value(text: str) -> str:
    return _ESCAPE.sub(r"\1", text[1:-1]) if text[0] in "\"'" else text


def resolved(path: str, base: str) -> str:
    """Returns the path in the workspace that a notebook at `base` means ("": unknown). Raises ValueError."""
    absolute = path.removeprefix("/Workspace") if path.startswith("/Workspace/") else path
    if not absolute.startswith("/"):
        if not base:
            raise ValueError(
                f"{path!r} is relative, and the path of this notebook is not known here. Give the notebook's whole path, such as "
                "/Users/me/notebook."
            )
        absolute = f"{base.rpartition('/')[0]}/{path}"
    names: list[str] = []
    for name in absolute.split("/"):
        if name == "..":
            if not names:
                raise ValueError(f"{path!r} leads out of the workspace.")
            names.pop()
        elif name not in ("", "."):
            names.append(name)
    return "/" + "/".join(names)
