"""The versions of packages in runtimes, as docs/packages.md has them: `./dev python -m tests.support.layers` writes the table."""

from __future__ import annotations

import re
from pathlib import Path

from brickyard.runtime import catalogue
from brickyard.runtime.packages import lock_file

PAGE = Path(__file__).parents[2] / "docs" / "packages.md"
BEGIN, END = "<!-- versions -->\n", "<!-- end of versions -->\n"
OWN = ("matplotlib", "numpy", "pandas", "pyarrow", "ipykernel")


def versions(file: Path) -> dict[str, list[str]]:
    """The locked versions by package; several if they depend on Python's version, the one for the oldest first."""
    found: dict[str, list[str]] = {}
    for name, version in re.findall(r"^([\w.-]+)==(\S+)", file.read_text(), re.MULTILINE):
        found.setdefault(name.lower(), []).append(version)
    return found


def table() -> str:
    """The table of the page."""
    environments = list(dict.fromkeys(row.environment for row in catalogue.rows()))
    rows = [row for row in catalogue.rows() if not row.photon]
    keys = [", ".join(row.key.partition(".x")[0] for row in rows if row.environment == each) for each in environments]
    asked = [line for line in (catalogue.DATA / "packages.in").read_text().splitlines() if line and not line.startswith("#")]
    lines = [f"| package | {' | '.join(keys)} |", f"|---|{'---|' * len(keys)}"]
    for names, file in ((asked, lock_file), (OWN, lambda each: catalogue.DATA / f"{each}.txt")):
        locks = [versions(file(each)) for each in environments]
        lines += [f"| {name} | {' | '.join(', '.join(lock[name]) for lock in locks)} |" for name in sorted(names)]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Writes the table."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(before + BEGIN + table() + END + rest.partition(END)[2])


if __name__ == "__main__":
    main()
