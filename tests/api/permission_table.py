"""The table of operations and permissions in docs/permissions.md, made from the registry. To write it anew:
`./dev python -m tests.api.permission_table`."""

from __future__ import annotations

from pathlib import Path

from brickyard.api.app import all_operations
from brickyard.api.edge.registry import EVERY, Auth, Need, Operation
from brickyard.domain.access import ObjectKind, Permission

PAGE = Path(__file__).parents[2] / "docs" / "permissions.md"
BEGIN, END = "<!-- operations: written by tests/api/permission_table.py -->\n", "<!-- end of operations -->\n"
_KINDS = {
    ObjectKind.DBFS_PATH: "DBFS path",
    ObjectKind.WORKSPACE_PATH: "notebook, file or directory",
    ObjectKind.VOLUME_PATH: "path in a volume",
    ObjectKind.JOB: "run",
}


def table() -> str:
    """The table's lines."""
    rows = [_row(each) for each in sorted(all_operations(), key=lambda each: each.paths[0]) if each.auth is Auth.USER]
    return "\n".join(["| operation | what it takes |", "|---|---|", *rows, ""])


def page() -> str:
    """The page with the table as it must be."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + "\n" + table() + "\n" + END + after


def _row(operation: Operation) -> str:
    takes = "; ".join(dict.fromkeys(_need(need) for need in operation.needs))
    return f"| `{operation.method} {operation.paths[0]}` | {takes} |"


def _need(need: Need) -> str:
    kind = _KINDS.get(need.kind, need.kind.value.replace("-", " "))
    if need.permission is Permission.ADMIN:
        return "administrators only"
    if need.kind is ObjectKind.WORKSPACE:
        unless = f", or `{need.unless}`" if need.unless else ""
        return f"the entitlement `{need.permission.value}`{unless}"
    if need.of == EVERY:
        return f"lists what one has {need.permission.value} on"
    name = f" `{need.of}`" if need.of else ""
    return f"{need.permission.value} on {kind}{name}"


if __name__ == "__main__":
    PAGE.write_text(page())
