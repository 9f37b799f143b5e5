"""Opens the providers named in the settings: ours, or from other installed packages (`config/providernames.py`)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from brickyard.config import providernames

if TYPE_CHECKING:  # only the selected providers are imported
    from brickyard.providers.base import Provider, Setup
    from brickyard.providers.fleet import Providers


def open_providers(setup: Setup) -> Providers:
    """Opens the providers named in the settings. Raises SetupError; then none is left open."""
    from brickyard.providers.base import SetupError  # noqa: PLC0415 - names can be checked without it
    from brickyard.providers.fleet import Providers  # noqa: PLC0415 - as above

    if rule := providernames.problem(setup.settings.provider):
        raise SetupError(f"provider is {setup.settings.provider!r}; provider must be {rule}.")
    opened: list[Provider] = []
    try:
        for name in setup.settings.providers:
            opened.append(open_provider(setup, name))
    except BaseException:
        for provider in opened:
            with contextlib.suppress(Exception):
                provider.close(keep_nodes=True)
        raise
    return Providers(*opened)


def open_provider(setup: Setup, name: str = "") -> Provider:
    """Opens one provider: the default one, or that with this name. Raises SetupError."""
    from brickyard.providers.base import SetupError  # noqa: PLC0415 - names can be checked without it

    name = name or setup.settings.provider
    if rule := providernames.unknown(name):
        raise SetupError(f"provider is {name!r}; provider must be {rule}.")
    entry = providernames.find()[name]
    try:
        factory: Callable[[Setup], Provider] = entry.load()
    except Exception as error:  # another package's code: any exception means that it cannot be used
        raise SetupError(f"provider {name} ({entry.value}) cannot be imported: {type(error).__name__}: {error}.") from error
    provider = factory(setup)
    if provider.where == "elsewhere" and not setup.settings.public_url.startswith("https://"):
        provider.close(keep_nodes=True)
        found = setup.settings.public_url or "not set"
        raise SetupError(
            f"provider {name} runs agents on other machines, and public_url is {found}: tokens and data would cross the network "
            "in plain. Set public_url to https://HOST:PORT, an address of this server that those machines reach: it listens "
            "there for agents, with its own certificate (docs/wires.md)."
        )
    return provider
