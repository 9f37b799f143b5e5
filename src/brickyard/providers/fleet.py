"""The providers of a workspace, by name."""

from __future__ import annotations

from collections.abc import Iterator

from brickyard.providers.base import Provider


class Providers:
    """Each instance is managed by the provider that launched it; new ones come from `default`."""

    def __init__(self, default: Provider, *others: Provider) -> None:
        self.default = default
        self._by_name = {provider.name: provider for provider in (*others, default)}

    def __iter__(self) -> Iterator[Provider]:
        return iter(self._by_name.values())

    def of(self, name: str) -> Provider | None:
        """The provider recorded with an instance, or None if it is no longer configured. Rows from before the name was recorded
        have none and belong to the default."""
        return self._by_name.get(name) if name else self.default

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._by_name)
