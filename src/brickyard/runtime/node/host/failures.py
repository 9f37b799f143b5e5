"""Explains why a node failed, for the user who created the cluster. Pure except for reading logs."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from .headline import headline

if TYPE_CHECKING:
    from ..documents import FailureDocument

TAIL_LINES = 30
TAIL_BYTES = 64 << 10

_OUT_OF_MEMORY = re.compile(r"java\.lang\.OutOfMemoryError: (?P<kind>[^\n]*)")
NO_THREADS = "it could make no more threads, because the node's processes and threads were used up"
_EXECUTOR = re.compile(r"Executor updated: \S+ is now (?:FAILED|EXITED) \((?P<reason>.*)\)")
_WRAPPER = "Error while instantiating"  # Spark's parts of a session: the cause says what is wrong
_CAUSE = re.compile(r"^(?:Caused by: )?(?P<class>[\w.$]+(?:Exception|Error)): (?P<message>.+)", re.MULTILINE)


def tail(files: Iterable[Path], lines: int = TAIL_LINES) -> str:
    """Returns the last lines of the first file that has any, then of the others while there is room."""
    found: list[str] = []
    for file in files:
        room = lines - len(found)
        if room > 0:
            found = read_end(file)[-room:] + found
    return "\n".join(found)


def read_end(file: Path) -> list[str]:
    try:
        with file.open("rb") as handle:
            handle.seek(max(0, file.stat().st_size - TAIL_BYTES))
            return handle.read().decode(errors="replace").splitlines()
    except OSError:
        return []


def output(files: Iterable[Path]) -> str:
    """Returns the ends of the files, for `headline`: a stack alone may be longer than what `tail` returns."""
    return "\n".join(line for file in files for line in read_end(file))


def lost_executor(log_lines: Iterable[str]) -> str:
    """Returns the last reason for failed executors in the driver's log, or "" if none failed."""
    reason = ""
    for line in log_lines:
        match = _EXECUTOR.search(line)
        reason = match.group("reason") if match else reason
    return reason


def refused_conf(error_text: str, conf: Mapping[str, str], *, executor: str = "") -> str:
    """Returns one sentence about a driver that did not start: Spark's error, and the responsible setting if known.

    `error_text`: the exception with its causes, as Java prints it. `executor`: why the executors failed, if they did; the
    exception then says only that Spark gave up.
    """
    if executor and "SparkContext" in error_text:
        return f"Spark's executors did not start: {executor}"
    said = plain_message(error_text)
    names = [name for name in re.findall(r"spark(?:\.[\w-]+)+", error_text) if name in conf]
    if not names:
        names = [name for name, value in conf.items() if len(value) > 2 and value in said]
    if not names:
        return f"Spark did not start: {said}"
    name = names[0]
    return f'Spark refused its configuration, {name} = "{conf[name]}": {said}'


def plain_message(error_text: str) -> str:
    """Returns the first line of the innermost exception that has a message, otherwise of the outermost."""
    found = [match.group("message").strip() for match in _CAUSE.finditer(error_text)]
    found = [each for each in found if not each.startswith(_WRAPPER)] or found
    if found:
        return found[0] if not found[0].startswith(("java.", "org.", "py4j.")) else found[-1]
    first = error_text.strip().splitlines()
    return first[0] if first else "no reason was given"


def jvm_death(code: int, log: str, *, role: str, ready: bool, said: str = "", resolving: Iterable[str] = ()) -> FailureDocument:
    """Returns the failure of a node whose JVM ended unexpectedly. `log`: its last lines; `said`: all that it printed and logged,
    if it has not been ready; `resolving`: settings that it would have resolved before it is."""
    driver = role != "worker"
    memory = _OUT_OF_MEMORY.search(log)
    threads = memory is not None and "native thread" in memory.group("kind")  # Java counts them as memory
    if driver and memory and not threads:
        kind = memory.group("kind").strip() or "heap space"
        message = (
            f"the driver ran out of memory ({kind}). Raise spark.driver.memory, choose a larger driver, or collect less data."
        )
        return failure("DRIVER_OUT_OF_MEMORY", message, log)
    how = f"with code {code}" if code >= 0 else f"by signal {signal_name(-code)}"
    who = "the driver's JVM" if driver else "the worker's JVM"
    if threads:
        why = NO_THREADS
    elif not ready:
        why = headline((said or log).splitlines())
    else:
        why = plain_message(log) if _CAUSE.search(log) else ""
    names = " and ".join(resolving)
    during = f" while it fetched what {names} names" if names else ""
    message = f"{who} ended {how}{during}" + (f": {why}" if why else "")
    if driver:
        return failure("DRIVER_UNREACHABLE" if ready else "SPARK_STARTUP_FAILURE", message, log)
    return failure("INSTANCE_UNREACHABLE" if ready else "WORKER_SETUP_FAILURE", message, log)


def failure(code: str, message: str, log_tail: str = "") -> FailureDocument:
    """Returns a `Failure` in the agent's format."""
    return {"code": code, "message": message, "log_tail": log_tail}


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
