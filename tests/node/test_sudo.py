"""sudo on a node: what of its arguments is the command, and that it runs as the same user."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from brickyard.runtime.node.programs import sudo
from brickyard.runtime.node.programs.sudo import SudoError, parse
from brickyard.sandbox.view import write_programs

USERS = ["root", "#0", "spark"]


@pytest.mark.parametrize(
    ("words", "command", "variables"),
    [
        ("cp -r a b", ["cp", "-r", "a", "b"], {}),
        ("-E cp a", ["cp", "a"], {}),
        ("-H -n -u root cp a", ["cp", "a"], {}),
        ("-nEHu root cp a", ["cp", "a"], {}),
        ("-uroot -u #0 -g root cp", ["cp"], {}),
        ("--user=spark --preserve-env=A,B --set-home --non-interactive cp", ["cp"], {}),
        ("--user root -- cp -x", ["cp", "-x"], {}),
        ("-- -x", ["-x"], {}),
        ("A=1 B_2=x=y cp A=3", ["cp", "A=3"], {"A": "1", "B_2": "x=y"}),
        ("-E A= cp", ["cp"], {"A": ""}),
        ("-S -p prompt -k cp", ["cp"], {}),
        ("-v", [], {}),
        ("-k", [], {}),
        ("-s echo $HOME a;b", ["/bin/zsh", "-c", r"echo $HOME a\;b"], {}),
        ("-i", ["/bin/zsh", "-l"], {}),
    ],
)
def test_arguments(words: str, command: list[str], variables: dict[str, str]) -> None:
    call = parse(words.split(" "), {"SHELL": "/bin/zsh"}, users=USERS)
    assert (call.command, call.variables) == (command, variables)


@pytest.mark.parametrize("words", ["", "-u other cp", "-Z cp", "--nope cp", "-u", "-b cp", "-e file", "A=1", "-R / cp"])
def test_what_cannot_be_done_is_said(words: str) -> None:
    with pytest.raises(SudoError):
        parse(words.split(), {}, users=USERS)


def test_it_runs_as_the_same_user_and_ends_as_the_command_does(tmp_path: Path) -> None:
    write_programs(tmp_path / "bin", python=sys.executable, node_code=str(Path(sudo.__file__).parent.parent))
    program = str(tmp_path / "bin" / "sudo")

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([program, *words], capture_output=True, text=True, check=False, input="in")

    script = 'cat; printf "%s %s" "$(id -u)" "$A"; exit 7'
    done = run("-E", "A=a b", "-u", "root", "sh", "-c", script)
    assert (done.returncode, done.stdout) == (7, f"in{os.getuid()} a b")
    assert run("/nowhere/program").returncode == 127
    assert run("-u", "nobody-else", "true").returncode == 1
    assert run("-n", "true").returncode == 0
