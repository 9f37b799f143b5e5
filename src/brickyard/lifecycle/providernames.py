"""Names of the installed providers: the entry points of the group `brickyard.providers`, ours and those of other packages."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "brickyard.providers"
# A checkout that is not installed has no metadata: these are the entry points that pyproject.toml registers.
OF_A_CHECKOUT = {
    "local": "brickyard.providers.local:open_provider",
    "simulated": "brickyard.providers.simulated:open_provider",
    "ray": "brickyard.providers.ray:open_provider",
    "slurm": "brickyard.providers.slurm:open_provider",
}


def find() -> dict[str, EntryPoint]:
    """All providers by name, without importing any. If two share a name, ours wins."""
    from importlib.metadata import EntryPoint, entry_points  # noqa: PLC0415 - every command loads the settings, few need this

    ours = {} if _installed() else OF_A_CHECKOUT
    found = {name: EntryPoint(name, value, GROUP) for name, value in ours.items()}
    for each in sorted(entry_points(group=GROUP), key=lambda each: (not each.value.startswith("brickyard."), each.value)):
        found.setdefault(each.name, each)
    return found


def unknown(name: str) -> str:
    """The valid names, as the end of a sentence, if no provider has this name; otherwise ""."""
    if name in OF_A_CHECKOUT:
        return ""  # no need to look at installed packages
    names = sorted(find())
    return "" if name in names else f"{', '.join(names[:-1])} or {names[-1]}"


def _installed() -> bool:
    from importlib.metadata import PackageNotFoundError, distribution  # noqa: PLC0415 - as above

    try:
        return bool(distribution("brickyard").entry_points.select(group=GROUP))
    except PackageNotFoundError:
        return False
