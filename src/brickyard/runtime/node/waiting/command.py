"""Commands with which Spark's worker starts executors, and whether a JVM that runs already can do what one asks for. Pure.

What counts only when a JVM starts has to be equal: Java's options, the class path, environment variables. Arguments, Spark's own
settings (`-Dspark...`), the working directory and a few variables that are new for each executor are handed over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..jvm import login

EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
SETTING = "-Dspark."
HEAP = "-Xmx"
OPEN = "--add-opens=java.base/sun.nio.fs=ALL-UNNAMED"  # it keeps the working directory (Surroundings.java)
# The heap begins small and grows with use: it may wait for long. Java's default would be a share of the machine's memory.
FRUGAL = ("-Xms64m", "-XX:NewSize=24m")
# What Spark's worker sets for each executor; Spark reads it when the executor begins.
OF_ONE_EXECUTOR = frozenset({"SPARK_EXECUTOR_DIRS", "SPARK_LOG_URL_STDERR", "SPARK_LOG_URL_STDOUT", "_SPARK_AUTH_SECRET"})


class Command(NamedTuple):
    """A command that starts an executor, in its parts."""

    java: str
    options: tuple[str, ...]  # for Java, with the class path
    settings: tuple[tuple[str, str], ...]  # Spark's, as system properties
    arguments: tuple[str, ...]  # for the main class
    kept: Mapping[str, str]  # variables that count when a JVM starts
    given: Mapping[str, str]  # variables of this executor
    through: tuple[str, ...] = ()  # a main class that runs the main class (jvm/login.py)


def parse(argv: Sequence[str], env: Mapping[str, str]) -> Command | None:
    """Returns the command's parts, or None if it starts no executor."""
    if EXECUTOR not in argv:
        return None
    main = argv.index(EXECUTOR)
    options, settings = [], []
    for option in argv[1:main]:
        if option.startswith(SETTING):
            key, _, value = option[2:].partition("=")
            settings.append((key, value))
        else:
            options.append(option)
    through = options[-1:] if options[-1:] == [login.MAIN] else []
    return Command(
        java=argv[0],
        options=tuple(options[: len(options) - len(through)]),
        through=tuple(through),
        settings=tuple(settings),
        arguments=tuple(argv[main + 1 :]),
        kept={key: value for key, value in env.items() if key not in OF_ONE_EXECUTOR},
        given={key: value for key, value in env.items() if key in OF_ONE_EXECUTOR},
    )


def misfit(waiting: Command, wanted: Command | None) -> str:
    """Returns why the JVM that was started for `waiting` cannot do what `wanted` asks for, for users, or "" if it can."""
    if wanted is None:
        return "the command starts no executor"
    if _heap(waiting) != _heap(wanted):
        return f"spark.executor.memory asks for a heap of {_heap(wanted)}, and the waiting JVM has {_heap(waiting)}"
    if _class_path(waiting) != _class_path(wanted):
        return "its class path is another one, and a running JVM keeps its own"
    if (waiting.java, waiting.options, waiting.through) != (wanted.java, wanted.options, wanted.through):
        changed = sorted(set(waiting.options) ^ set(wanted.options)) or ["their order"]
        return f"Java's options count only when a JVM starts ({', '.join(changed)})"
    if waiting.kept != wanted.kept:
        names = sorted({key for key, _ in set(waiting.kept.items()) ^ set(wanted.kept.items())})
        return f"a running JVM does not see new environment variables ({', '.join(names)})"
    return ""


def start(command: Command, main: str) -> list[str]:
    """Returns the command line of a JVM that waits for such a command. `main`: its main class, which is told what it will run."""
    return [command.java, *FRUGAL, *command.options, OPEN, *command.through, main, EXECUTOR]


def _heap(command: Command) -> str:
    return next((option[len(HEAP) :] for option in reversed(command.options) if option.startswith(HEAP)), "Java's default")


def _class_path(command: Command) -> str:
    options = command.options
    return options[options.index("-cp") + 1] if "-cp" in options[:-1] else ""
