"""Names of the providers that are installed: the entry points of the group `brickyard.providers`, ours and other packages'."""

from __future__ import annotations

from importlib.metadata import EntryPoint, PackageNotFoundError, distribution, entry_points

GROUP = "brickyard.providers"
# A checkout runs without being installed, so that it has no metadata: these are what pyproject.toml registers.
OF_A_CHECKOUT = (
    EntryPoint("local", "brickyard.providers.local:open_provider", GROUP),
    EntryPoint("simulated", "brickyard.providers.simulated:open_provider", GROUP),
)


def find() -> dict[str, EntryPoint]:
    """Every provider there is, by name, without importing any. Of two with one name the first that is found counts: ours."""
    found: dict[str, EntryPoint] = {} if _installed() else {each.name: each for each in OF_A_CHECKOUT}
    for each in sorted(entry_points(group=GROUP), key=lambda each: (not each.value.startswith("brickyard."), each.value)):
        found.setdefault(each.name, each)
    return found


def unknown(name: str) -> str:
    """What a name must be that no provider has, as the end of a sentence; "" for one that there is."""
    if any(name == each.name for each in OF_A_CHECKOUT):
        return ""  # without a look at what else is installed
    names = sorted(find())
    return "" if name in names else f"{', '.join(names[:-1])} or {names[-1]}"


def _installed() -> bool:
    try:
        return bool(distribution("brickyard").entry_points.select(group=GROUP))
    except PackageNotFoundError:
        return False
