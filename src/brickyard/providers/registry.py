"""Opens the provider named in the settings: ours, or one from another installed package (`lifecycle/providernames.py`)."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from brickyard.lifecycle.providernames import find, unknown

if TYPE_CHECKING:  # only the selected provider is imported
    from brickyard.providers.base import Provider, Setup


def open_provider(setup: Setup) -> Provider:
    """Opens the provider named in the settings. Raises SetupError."""
    from brickyard.providers.base import SetupError  # noqa: PLC0415 - names can be checked without it

    name = setup.settings.provider
    if rule := unknown(name):
        raise SetupError(f"provider is {name!r}; provider must be {rule}.")
    entry = find()[name]
    try:
        factory: Callable[[Setup], Provider] = entry.load()
    except Exception as error:  # another package's code: any exception means that it cannot be used
        raise SetupError(f"provider {name} ({entry.value}) cannot be imported: {type(error).__name__}: {error}.") from error
    provider = factory(setup)
    if provider.where == "elsewhere" and not setup.settings.public_url and _only_here(setup.server_url):
        raise SetupError(
            f"provider {name} runs agents on other machines, which cannot call {setup.server_url}: set public_url to an "
            "address of this server that they reach."
        )
    return provider


def _only_here(url: str) -> bool:
    """Whether only this machine can reach that address."""
    host = urlsplit(url).hostname or ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    return address.is_loopback or address.is_unspecified
