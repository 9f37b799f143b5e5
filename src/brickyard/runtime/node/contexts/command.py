"""One command of a context, and the code that its kernel runs for it."""

from __future__ import annotations

from typing import Any

from ..wire import TASK_MAGIC
from . import results


class Command:
    """One command and its outcome. Written by its context's thread, under the context's lock."""

    def __init__(self, *, command_id: str, language: str, code: str) -> None:
        self.command_id = command_id
        self.language = language
        self.code = code
        self.status = "Queued"
        self.results: dict[str, Any] | None = None
        self.size = 0
        self.cancelled = False
        self.task = code.startswith(f"%%{TASK_MAGIC}")
        self.ended_s = 0.0  # time.monotonic() of its end
        self.awaited = False  # it had not ended when the node was to end: somebody wants to know its results
        self.read = False  # somebody does

    @property
    def over(self) -> bool:
        return self.status in ("Finished", "Error", "Cancelled")


# What to do instead of a magic for a language that no context runs.
_OTHER_LANGUAGES = {
    "r": "R code runs as a program: write it to a file and call %sh Rscript FILE, on a node that has R.",
    "scala": "Compile it to a JAR, and run that as a task of a job (spark_jar_task) or call it from Python through spark._jvm.",
}


def kernel_code(command: Command) -> str:
    """Returns the code for the kernel. A magic on the first line selects the language, as in a notebook."""
    code, language = command.code, command.language
    first, _, rest = code.lstrip().partition("\n")
    magic, _, tail = first.partition(" ")
    if magic in ("%sql", "%python"):
        language, code = magic[1:], f"{tail}\n{rest}" if tail.strip() else rest
    elif magic == "%sh":
        return f"%%bash\n{tail}\n{rest}"
    elif magic == "%fs":
        return f"get_ipython().run_line_magic('fs', {results.clean(f'{tail} {rest}'.strip())!r})"
    elif magic == "%md":
        return ""
    elif (other := _other_language(magic)) in _OTHER_LANGUAGES:
        text = f"{magic} is not supported: commands are Python or SQL. {_OTHER_LANGUAGES[other]}"
        return f"raise __import__('IPython').core.error.UsageError({text!r})"
    if language == "sql":
        return f"get_ipython().run_cell_magic('sql', '', {results.clean(code)!r})"
    return results.clean(code)


def _other_language(magic: str) -> str:
    """The language that a line or cell magic names; "" if it is none."""
    return magic.strip().lstrip("%") if magic.startswith("%") else ""
