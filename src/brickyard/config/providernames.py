"""Names of the installed providers: the entry points of the group `brickyard.providers`, ours and those of other packages."""

from __future__ import annotations

from collections.abc import Iterable
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
    "kubernetes": "brickyard.providers.kubernetes:open_provider",
}


def find() -> dict[str, EntryPoint]:
    """All providers by name, without importing any. If two share a name, ours wins."""
    from importlib.metadata import EntryPoint, entry_points  # noqa: PLC0415 - every command loads the settings, few need this

    ours = {} if _installed() else OF_A_CHECKOUT
    found = {name: EntryPoint(name, value, GROUP) for name, value in ours.items()}
    for each in sorted(entry_points(group=GROUP), key=lambda each: (not each.value.startswith("brickyard."), each.value)):
        found.setdefault(each.name, each)
    return found


def listed(setting: str) -> tuple[str, ...]:
    """The names in the setting `provider`: comma-separated, the default provider first."""
    return tuple(name.strip() for name in setting.split(",") if name.strip())


def unknown(name: str) -> str:
    """The valid names, as the end of a sentence, if no provider has this name; otherwise ""."""
    if name in OF_A_CHECKOUT:
        return ""  # no need to look at installed packages
    names = sorted(find())
    return "" if name in names else f"{', '.join(names[:-1])} or {names[-1]}"


def problem(setting: str) -> str:
    """What the setting `provider` must be, as the end of a sentence, if it is wrong; otherwise ""."""
    names = listed(setting)
    if not names:
        return "non-empty text"
    for name in names:
        if rule := unknown(name):
            return rule if len(names) == 1 else f"{rule}, or several of them separated by commas"
    return "without a name that occurs twice" if len(set(names)) < len(names) else ""


def of_variable(variable: str, names: Iterable[str]) -> tuple[str, str] | None:
    """The provider that a variable without our prefix is for, and its key: RAY_ADDRESS is `address` of ray. If one provider's
    name begins like another's, the longer one that fits counts."""
    for name in sorted(names, key=len, reverse=True):
        prefix = f"{name.upper().replace('-', '_')}_"
        if variable.startswith(prefix) and variable != prefix:
            return name, variable.removeprefix(prefix).lower()
    return None


def _installed() -> bool:
    from importlib.metadata import PackageNotFoundError, distribution  # noqa: PLC0415 - as above

    try:
        return bool(distribution("brickyard").entry_points.select(group=GROUP))
    except PackageNotFoundError:
        return False
