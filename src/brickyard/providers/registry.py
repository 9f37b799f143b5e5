"""Opens the provider named in the settings: ours, or one from another installed package (`lifecycle/providernames.py`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

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
    if provider.where == "elsewhere" and not setup.settings.public_url.startswith("https://"):
        found = setup.settings.public_url or "not set"
        raise SetupError(
            f"provider {name} runs agents on other machines, and public_url is {found}: tokens and data would cross the network "
            "in plain. Set public_url to https://HOST:PORT, an address of this server that those machines reach: it listens "
            "there for agents, with a certificate of its own (docs/wires.md)."
        )
    return provider
