"""Providers by name: the entry points of the group `brickyard.providers`, ours and those of other installed packages."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution, entry_points
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:  # only the provider that is opened is imported
    from brickyard.providers.base import Provider, Setup

GROUP = "brickyard.providers"
# A checkout runs without being installed, so that it has no metadata: these are what pyproject.toml registers.
_OF_A_CHECKOUT = (
    EntryPoint("local", "brickyard.providers.local:open_provider", GROUP),
    EntryPoint("simulated", "brickyard.providers.simulated:open_provider", GROUP),
)


def find() -> dict[str, EntryPoint]:
    """Every provider there is, by name, without importing any. Of two with one name the first that is found counts: ours."""
    found: dict[str, EntryPoint] = {} if _installed() else {each.name: each for each in _OF_A_CHECKOUT}
    for each in sorted(entry_points(group=GROUP), key=lambda each: (not each.value.startswith("brickyard."), each.value)):
        found.setdefault(each.name, each)
    return found


def unknown(name: str) -> str:
    """What is wrong with a name that no provider has, as the end of a sentence; "" for one that there is."""
    names = sorted(find())
    return "" if name in names else f"provider must be {', '.join(names[:-1])} or {names[-1]}"


def open_provider(setup: Setup) -> Provider:
    """The provider of the settings. Raises SetupError."""
    from brickyard.providers.base import SetupError  # noqa: PLC0415 - names can be checked without it

    name = setup.settings.provider
    if rule := unknown(name):
        raise SetupError(f"provider is {name!r}; {rule}.")
    entry = find()[name]
    try:
        factory: Callable[[Setup], Provider] = entry.load()
    except Exception as error:  # another package's code: whatever it raises is why it cannot be used
        raise SetupError(f"provider {name} ({entry.value}) cannot be imported: {type(error).__name__}: {error}.") from error
    provider = factory(setup)
    if provider.where == "elsewhere" and not setup.settings.public_url and _only_here(setup.server_url):
        raise SetupError(
            f"provider {name} runs agents on other machines, which cannot call {setup.server_url}: set public_url to an "
            "address of this server that they reach."
        )
    return provider


def _installed() -> bool:
    try:
        return bool(distribution("brickyard").entry_points.select(group=GROUP))
    except PackageNotFoundError:
        return False


def _only_here(url: str) -> bool:
    """Whether nobody but this machine can call that address."""
    host = urlsplit(url).hostname or ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    return address.is_loopback or address.is_unspecified
