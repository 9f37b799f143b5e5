"""References in environment variables: what bash makes of them between double quotes, and what is refused."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brickyard.domain.variables import BadReference, check, depend_on, expanded, literal, parse

NODE = {"PATH": "/usr/bin:/bin", "HOME": "/home/node", "EMPTY": ""}


@pytest.mark.parametrize(
    ("value", "becomes"),
    [
        ("$PATH:/opt/bin", "/usr/bin:/bin:/opt/bin"),
        ("${HOME}x", "/home/nodex"),
        ("$HOMEx", ""),
        ("a$", "a$"),
        ("pa$$word", "pa$$word"),
        ("$5 $. $-", "$5 $. $-"),
        (r"\$HOME", "$HOME"),
        (r"\\$HOME", "\\/home/node"),
        (r"\\\$HOME", r"\$HOME"),
        (r"C:\\dir\n`x` 'y' \"z\"", r"C:\\dir\n`x` 'y' \"z\""),  # nothing but what stands before a $
        ("{}}", "{}}"),
        ("${NONE:-a b}", "a b"),
        ("${EMPTY:-x}${EMPTY-y}", "x"),
        ("${HOME:+:$HOME}", ":/home/node"),
        ("${EMPTY:+x}${EMPTY+y}${NONE+z}", "y"),
        ("${NONE:-${HOME}/${EMPTY:-lib}}", "/home/node/lib"),
        (r"${NONE:-a\}b}", "a}b"),
        ("", ""),
    ],
)
def test_values(value: str, becomes: str) -> None:
    assert expanded({"X": value}, NODE) == {"X": becomes}


@pytest.mark.parametrize(
    "value", ["$(id)", "x${", "${1}", "${HOME", "${HOME:?}", "${#HOME}", "${HOME%x}", "${NONE:-$(id)}", "${}"]
)
def test_refused(value: str) -> None:
    with pytest.raises(BadReference):
        parse(value)
    assert check({"OK": "1", "X": value})[0] == "X"


def test_own_variables_count_in_any_order_and_in_its_own_value_the_nodes() -> None:
    variables = {"A": "$B/a", "B": "${PATH}!", "PATH": "/own:$PATH"}
    assert expanded(variables, NODE) == {"A": "/own:/usr/bin:/bin!/a", "B": "/own:/usr/bin:/bin!", "PATH": "/own:/usr/bin:/bin"}
    assert expanded(dict(reversed(variables.items())), NODE) == expanded(variables, NODE)


def test_circles_and_growth_are_refused() -> None:
    assert check({"A": "$B", "B": "$C", "C": "$A"})[0] == "A"
    assert check({"A": "$A", "B": "$A"}) == ("", "")
    doubling = {f"V{number}": f"$V{number + 1}" * 2 for number in range(60)} | {"V60": "x"}
    assert check(doubling)[1]
    with pytest.raises(BadReference):
        parse("${a:-" * 1_000 + "}" * 1_000)


def test_which_depend_on_the_node() -> None:
    assert depend_on({"A": "$HOME", "B": "$A", "C": "x", "D": "$C", "E": "$E:1"}) == {"A", "B", "E"}


@given(st.text(alphabet="\\$a{}(:-", max_size=12), st.text(alphabet="\\$a{", max_size=6))
def test_a_literal_stays_what_it_is(value: str, other: str) -> None:
    rest = literal(other)
    assert expanded({"X": literal(value, rest) + rest}, {"a": "no"}) == {"X": value + other}
    assert expanded({"X": literal(value, "$a") + "$a"}, {"a": "no"}) == {"X": value + "no"}


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash to compare with")
@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from(["$P", "${P}", "${N:-d}", "${P:+w$E}", "${E-x}", "${E:-$P}", "text", " ", r"\$P", "/"]), max_size=8)
)
def test_bash_agrees(pieces: list[str]) -> None:
    value, node = "".join(pieces), {"P": "p q", "E": ""}
    done = subprocess.run(["bash", "-c", f'printf %s "{value}"'], env=node, capture_output=True, text=True, check=True)
    assert expanded({"X": value}, node)["X"] == done.stdout
