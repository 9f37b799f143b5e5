"""sudo on a node: runs its arguments as the user that everything on a node runs as. Nobody gains anything by it.

Init scripts that are written for machines call it throughout. `python -I -S sudo.py ARGUMENTS`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

_FLAGS = "ABbEeHiKklNnPSsVv"
_VALUED = "CDghpRrTtUu"  # an option's value follows it, at once or as the next word
_LONG_FLAGS = {
    "askpass": "A", "background": "b", "preserve-env": "E", "edit": "e", "set-home": "H", "login": "i", "remove-timestamp": "K",
    "reset-timestamp": "k", "list": "l", "non-interactive": "n", "no-update": "N", "preserve-groups": "P", "stdin": "S",
    "shell": "s", "version": "V", "validate": "v", "bell": "B",
}  # fmt: skip
_LONG_VALUED = {
    "close-from": "C", "chdir": "D", "group": "g", "host": "h", "prompt": "p", "chroot": "R", "role": "r", "command-timeout": "T",
    "type": "t", "other-user": "U", "user": "u",
}  # fmt: skip
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_REFUSED = {
    "b": "-b is not available: write the command with & instead",
    "e": "-e is not available: change the file itself",
    "R": "-R is not available: a node cannot change its root",
    "T": "-T is not available: use the program timeout",
}


class SudoError(Exception):
    """The arguments cannot be followed; the message says why."""


class Call(NamedTuple):
    """What is to be done. `command` is empty where only credentials were asked for."""

    command: list[str]
    variables: dict[str, str]
    directory: str = ""
    version: bool = False


def parse(arguments: Sequence[str], environ: Mapping[str, str], *, users: Sequence[str]) -> Call:
    """Returns what the arguments ask for. `users`: names and numbers that are as good as the node's one user. Raises
    SudoError."""
    options, variables, rest = _options(list(arguments))
    for name, value in options:
        if name in _REFUSED:
            raise SudoError(_REFUSED[name])
        if name in "ug" and value not in users:
            raise SudoError(f"a node has one user, and {value} is another: leave -{name} out")
    given = dict(options)
    if "V" in given:
        return Call([], variables, version=True)
    if "i" in given or "s" in given:
        shell = environ.get("SHELL") or "/bin/sh"
        # As sudo does: one string for the shell, in which only a variable's $ keeps its meaning.
        text = " ".join(re.sub(r"([^\w$-])", r"\\\1", word, flags=re.ASCII) for word in rest)
        rest = [shell, *(["-l"] if "i" in given else []), *(["-c", text] if rest else [])]
    elif "l" in given or not rest:
        if not any(name in given for name in "vkKl"):
            raise SudoError("a command is missing: sudo [-EHn] [-u root] [NAME=value] COMMAND [ARGUMENT ...]")
        rest = []
    return Call(rest, variables, given.get("D", ""))


def _options(words: list[str]) -> tuple[list[tuple[str, str]], dict[str, str], list[str]]:
    """Returns the options with their values, the variables among and behind them, and the words that follow."""
    found: list[tuple[str, str]] = []
    variables: dict[str, str] = {}
    ended = False
    while words:
        assignment = _ASSIGNMENT.fullmatch(words[0])
        if assignment is not None:
            variables[assignment[1]] = assignment[2]
            words.pop(0)
            continue
        if ended or not words[0].startswith("-") or words[0] == "-":
            break
        word = words.pop(0)
        if word == "--":
            ended = True
        elif word.startswith("--"):
            found.append(_long(word, words))
        else:
            found += _short(word, words)
    return found, variables, words


def _long(word: str, words: list[str]) -> tuple[str, str]:
    name, given, value = word[2:].partition("=")
    if name == "help":
        return "V", ""
    if name in _LONG_FLAGS:
        return _LONG_FLAGS[name], value
    if name in _LONG_VALUED:
        return _LONG_VALUED[name], value if given else _next(words, word)
    raise SudoError(f"unknown option {word}")


def _short(word: str, words: list[str]) -> Iterator[tuple[str, str]]:
    letters = word[1:]
    while letters:
        letter, letters = letters[0], letters[1:]
        if letter in _FLAGS:
            yield letter, ""
        elif letter in _VALUED:
            yield letter, letters or _next(words, f"-{letter}")
            return
        else:
            raise SudoError(f"unknown option -{letter}")


def _next(words: list[str], option: str) -> str:
    if not words:
        raise SudoError(f"{option} needs a value")
    return words.pop(0)


def own_users() -> list[str]:
    """Returns the names and numbers of this process's user, and those of root, as which scripts run on machines."""
    found = ["root", "#0", "0", f"#{os.getuid()}", str(os.getuid())]
    try:
        import pwd

        found.append(pwd.getpwuid(os.getuid()).pw_name)
    except (ImportError, KeyError):
        pass
    return found


def main() -> int:
    """Becomes the command; returns an exit code if it does not come to that."""
    try:
        call = parse(sys.argv[1:], os.environ, users=own_users())
    except SudoError as error:
        print(f"sudo: {error}", file=sys.stderr)
        return 1
    if call.version:
        print("sudo of a Brickyard node: runs its arguments as the node's one user")
    if not call.command:
        return 0
    os.environ.update(call.variables)
    try:
        if call.directory:
            os.chdir(call.directory)
        os.execvp(call.command[0], call.command)  # noqa: S606 - what it is for
    except FileNotFoundError as error:
        missing = call.directory if error.filename == call.directory else call.command[0]
        print(
            f"sudo: {missing}: command not found" if missing != call.directory else f"sudo: {missing}: not found", file=sys.stderr
        )
        return 127
    except OSError as error:
        print(f"sudo: {call.command[0]}: {error.strerror}", file=sys.stderr)
        return 126


if __name__ == "__main__":
    sys.exit(main())
