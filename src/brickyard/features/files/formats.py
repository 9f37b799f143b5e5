"""How notebooks and files of the workspace are sent and returned, and what of it is kept on disk."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import NamedTuple

from brickyard.domain.errors import InvalidParameterValue
from brickyard.features.files import notebooks
from brickyard.features.files.errors import FileSystemError, NotebookTooLarge
from brickyard.features.files.notebooks import Language, NotANotebook
from brickyard.features.files.tree import Draft, OpenFile, write_all
from brickyard.features.files.versions import etag_of
from brickyard.storage.labels import Label, label_of

MAX_NOTEBOOK = 10 * 1024 * 1024  # bytes, as in Databricks; other files may have any size
_EXTENSION = {language: extension.lstrip(".") for extension, language in notebooks.EXTENSIONS.items()}


class Format(StrEnum):
    """How content is sent and returned."""

    SOURCE = "SOURCE"
    HTML = "HTML"
    JUPYTER = "JUPYTER"
    DBC = "DBC"
    R_MARKDOWN = "R_MARKDOWN"
    AUTO = "AUTO"
    RAW = "RAW"


class Exported(NamedTuple):
    """Content of a notebook, or a file that is open for reading. `etag`: of the notebook's content on disk."""

    content: bytes | OpenFile
    file_type: str
    etag: str = ""


def language_in(file: int) -> Language | None:
    """The language of a notebook; None if it is a file. Blocks."""
    return None if label_of(file).plain else notebooks.language_of(os.pread(file, notebooks.LONGEST_HEADER, 0))


def prepare(parts: tuple[str, ...], draft: Draft, *, format: Format, language: Language | None) -> tuple[tuple[str, ...], Label]:
    """Makes of a draft what is kept on disk, and returns its path and its label. Blocks."""
    name, jupyter = parts[-1], format is Format.JUPYTER
    head = os.pread(draft.file, notebooks.LONGEST_HEADER, 0)
    if format is Format.RAW:
        return parts, Label(plain=notebooks.language_of(head) is not None)
    if format is Format.AUTO:
        name, language, jupyter = notebooks.automatic(name, head)
        if language is None:
            return parts, Label()
    elif language is None and not jupyter:
        raise InvalidParameterValue(
            "language is missing: format SOURCE imports a notebook. Give its language (PYTHON, SQL, SCALA, R), or format AUTO "
            "for a file."
        )
    content = _content(draft)
    try:
        if jupyter:
            kept, _ = notebooks.from_jupyter(content, None if format is Format.AUTO else language)
        else:
            assert language is not None  # noqa: S101 - checked above
            kept = notebooks.stored(content.decode("utf-8-sig"), language)
    except NotANotebook as error:
        if format is Format.AUTO:
            return parts, Label()
        raise InvalidParameterValue(str(error)) from error
    except UnicodeDecodeError as error:
        raise InvalidParameterValue(f"The notebook is not valid UTF-8: {error.reason} at byte {error.start}.") from error
    os.truncate(draft.file, 0)
    os.lseek(draft.file, 0, os.SEEK_SET)
    write_all(draft.file, kept.encode())
    return (*parts[:-1], name), Label(jupyter=jupyter)


def _content(draft: Draft) -> bytes:
    if draft.size > MAX_NOTEBOOK:
        raise NotebookTooLarge(
            f"The notebook has {draft.size} bytes; at most {MAX_NOTEBOOK} are allowed. Import it with format RAW as a file."
        )
    return os.pread(draft.file, draft.size, 0)


def exported(path: str, opened: OpenFile, format: Format) -> Exported:
    """What a file is exported as. Blocks."""
    language = language_in(opened.file)
    if language is None or format is Format.RAW:
        if format is Format.JUPYTER:
            raise InvalidParameterValue(f"{path} is a file, and only notebooks can be exported as JUPYTER. Use AUTO.")
        return Exported(opened, "file")
    if opened.entry.size > MAX_NOTEBOOK:
        raise NotebookTooLarge(f"{path} has {opened.entry.size} bytes; a notebook has at most {MAX_NOTEBOOK}.")
    return exported_content(path, os.pread(opened.file, MAX_NOTEBOOK, 0), language, format)


def exported_content(path: str, content: bytes, language: Language, format: Format = Format.SOURCE) -> Exported:
    """What the content of a notebook on disk is exported as."""
    try:
        kept = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileSystemError(f"The notebook {path} is not valid UTF-8: {error.reason} at byte {error.start}.") from error
    if format is Format.JUPYTER:
        return Exported(notebooks.to_jupyter(kept, language), "ipynb", etag_of(content))
    return Exported(notebooks.source_of(kept, language).encode(), _EXTENSION[language], etag_of(content))
