"""Names of the installed providers: the entry points of the group `brickyard.providers`, ours and those of other packages."""

from __future__ import annotations

from importlib.metadata import EntryPoint, PackageNotFoundError, distribution, entry_points

GROUP = "brickyard.providers"
# A checkout that is not installed has no metadata: these are the entry points that pyproject.toml registers.
OF_A_CHECKOUT = (
    EntryPoint("local", "brickyard.providers.local:open_provider", GROUP),
    EntryPoint("simulated", "brickyard.providers.simulated:open_provider", GROUP),
)


def find() -> dict[str, EntryPoint]:
    """All providers by name, without importing any. If two share a name, ours wins."""
    found: dict[str, EntryPoint] = {} if _installed() else {each.name: each for each in OF_A_CHECKOUT}
    for each in sorted(entry_points(group=GROUP), key=lambda each: (not each.value.startswith("brickyard."), each.value)):
        found.setdefault(each.name, each)
    return found


def unknown(name: str) -> str:
    """The valid names, as the end of a sentence, if no provider has this name; otherwise ""."""
    if any(name == each.name for each in OF_A_CHECKOUT):
        return ""  # no need to look at installed packages
    names = sorted(find())
    return "" if name in names else f"{', '.join(names[:-1])} or {names[-1]}"


def _installed() -> bool:
    try:
        return bool(distribution("brickyard").entry_points.select(group=GROUP))
    except PackageNotFoundError:
        return False
