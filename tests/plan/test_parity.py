"""docs/parity.md says what is so."""

from __future__ import annotations

from pathlib import Path

from brickyard.plan.refused import REFUSED

PARITY = Path(__file__).parents[2] / "docs" / "parity.md"


def test_every_refused_field_is_in_the_ledger_and_no_other() -> None:
    lines = PARITY.read_text().splitlines()
    listed = {
        line.split("`")[1] for line in lines if line.startswith("| `") and "| refused |" in line and "/" not in line.split("`")[1]
    }
    assert listed == set(REFUSED)
