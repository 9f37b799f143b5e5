"""Notebooks as text: Databricks' source format, which is also how they are on disk, and Jupyter's. Pure.

A file is a notebook if its first line is the header of a language. Python and R share a header, so on disk that of R has a
suffix, which clients never see.
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Any, Final

HEADER: Final = " Databricks notebook source"
_R_SUFFIX: Final = " (R)"
LONGEST_HEADER: Final = 64  # bytes from a file's beginning that tell whether it is a notebook
_SEPARATOR: Final = " COMMAND ----------"
_MAGIC: Final = " MAGIC"
_TITLE: Final = " DBTITLE "
_CELL_METADATA: Final = "application/vnd.databricks.v1+cell"  # of Jupyter cells: `title`, and whether Databricks shows it


class Language(StrEnum):
    PYTHON = "PYTHON"
    SQL = "SQL"
    SCALA = "SCALA"
    R = "R"


_COMMENT: Final = {Language.PYTHON: "#", Language.SQL: "--", Language.SCALA: "//", Language.R: "#"}
EXTENSIONS: Final = {".py": Language.PYTHON, ".sql": Language.SQL, ".scala": Language.SCALA, ".r": Language.R}
_KERNELS: Final = {"python": Language.PYTHON, "sql": Language.SQL, "scala": Language.SCALA, "r": Language.R}


class NotANotebook(ValueError):
    """The content cannot be read as a notebook; the message says why in a sentence."""


def language_of(head: bytes) -> Language | None:
    """The language of a notebook on disk, by its first LONGEST_HEADER bytes; None if it is another file."""
    line = head.removeprefix(b"\xef\xbb\xbf").partition(b"\n")[0].rstrip(b"\r").decode("utf-8", "replace")
    if line == _COMMENT[Language.R] + HEADER + _R_SUFFIX:
        return Language.R
    languages = (Language.PYTHON, Language.SQL, Language.SCALA)
    return next((language for language in languages if line == _COMMENT[language] + HEADER), None)


def stored(source: str, language: Language) -> str:
    """A notebook's source, with or without a header, as it is kept on disk."""
    body = source.removeprefix("\ufeff")
    first, _, rest = body.partition("\n")
    if first.rstrip("\r") in (_COMMENT[language] + HEADER, _COMMENT[language] + HEADER + _R_SUFFIX):
        body = rest
    suffix = _R_SUFFIX if language is Language.R else ""
    return f"{_COMMENT[language]}{HEADER}{suffix}\n{body}"


def source_of(kept: str, language: Language) -> str:
    """The source format of a notebook on disk."""
    return f"{_COMMENT[language]}{HEADER}\n{kept.partition(chr(10))[2]}"


def automatic(name: str, head: bytes) -> tuple[str, Language | None, bool]:
    """What format AUTO makes of a file: its name in the workspace, its language if it is a notebook, and whether it is Jupyter's.
    A notebook loses its extension. The language of a Jupyter notebook is in its content, and PYTHON here."""
    stem, dot, extension = name.rpartition(".")
    extension = (dot + extension).lower()
    if stem and extension == ".ipynb":
        return stem, Language.PYTHON, True
    wanted = EXTENSIONS.get(extension)
    found = language_of(head)
    if stem and wanted is not None and found is not None and _COMMENT[wanted] == _COMMENT[found]:
        return stem, wanted, False
    return name, None, False


def from_jupyter(content: bytes, language: Language | None = None) -> tuple[str, Language]:
    """A Jupyter notebook as it is kept on disk, and its language. Outputs are left out, and so is metadata other than titles.
    Raises NotANotebook."""
    try:
        notebook = json.loads(content)
        cells = notebook["cells"]
        texts = [(str(cell["cell_type"]), _text(cell["source"]), _title(cell.get("metadata"))) for cell in cells]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise NotANotebook("The content is not a Jupyter notebook of format 4: a JSON object with cells.") from error
    language = language or _jupyter_language(notebook.get("metadata"))
    comment = _COMMENT[language]
    parts = []
    for kind, text, title in texts:
        shown = text if kind == "code" else f"%md\n{text}"
        if shown.lstrip().startswith("%"):
            shown = "\n".join(f"{comment}{_MAGIC} {line}".rstrip() for line in shown.split("\n"))
        parts.append(f"{comment}{_TITLE}{title}\n{shown}" if title else shown)
    return stored(f"\n\n{comment}{_SEPARATOR}\n\n".join(parts) + "\n", language), language


def to_jupyter(kept: str, language: Language) -> bytes:
    """A notebook on disk as a Jupyter notebook of format 4."""
    cells = [_jupyter_cell(text, _COMMENT[language]) for text in _cells(kept, _COMMENT[language])]
    kernel = {"name": language.value.lower(), "language": language.value.lower(), "display_name": language.value.capitalize()}
    metadata = {"kernelspec": kernel, "language_info": {"name": language.value.lower()}}
    return json.dumps({"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 4}, indent=1).encode()


def _cells(kept: str, comment: str) -> list[str]:
    body = kept.partition("\n")[2].replace("\r\n", "\n")
    cells: list[list[str]] = [[]]
    for line in body.split("\n"):
        if line.rstrip() == comment + _SEPARATOR:
            cells.append([])
        else:
            cells[-1].append(line)
    return ["\n".join(lines).strip("\n") for lines in cells]


def _jupyter_cell(text: str, comment: str) -> dict[str, Any]:
    mark = comment + _MAGIC
    metadata: dict[str, Any] = {}
    if text.startswith(comment + _TITLE):
        line, _, text = text.partition("\n")
        number, comma, title = line[len(comment + _TITLE) :].partition(",")
        if comma and number.isdecimal():
            metadata = {_CELL_METADATA: {"showTitle": number != "0", "title": title.strip()}}
        else:
            text = f"{line}\n{text}"
    lines = text.split("\n")
    if all(line == mark or line.startswith(mark + " ") for line in lines):
        text = "\n".join(line[len(mark) + 1 :] for line in lines)
        if text.startswith("%md"):
            shown = text.removeprefix("%md").lstrip(" ").removeprefix("\n")
            return {"cell_type": "markdown", "metadata": metadata, "source": shown.splitlines(keepends=True)}
    source = text.splitlines(keepends=True)
    return {"cell_type": "code", "execution_count": None, "metadata": metadata, "outputs": [], "source": source}


def _jupyter_language(metadata: object) -> Language:
    found = metadata if isinstance(metadata, dict) else {}
    for section, field in (("language_info", "name"), ("kernelspec", "language")):
        part = found.get(section)
        name = str(part.get(field, "")).lower() if isinstance(part, dict) else ""
        if name in _KERNELS:
            return _KERNELS[name]
    return Language.PYTHON


def _title(metadata: object) -> str:
    """What follows DBTITLE in the source format; "": the cell has no title."""
    found = metadata.get(_CELL_METADATA) if isinstance(metadata, dict) else None
    title = found.get("title") if isinstance(found, dict) else None
    if not isinstance(found, dict) or not isinstance(title, str) or not title.strip():
        return ""
    return f"{0 if found.get('showTitle') is False else 1},{' '.join(title.split())}"


def _text(source: object) -> str:
    """A cell's source, which is a text or a list of lines."""
    if isinstance(source, list):
        return "".join(str(line) for line in source)
    if not isinstance(source, str):
        raise TypeError("source")
    return source
