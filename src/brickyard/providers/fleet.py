"""The providers of a workspace, by name."""

from __future__ import annotations

from collections.abc import Iterator

from brickyard.providers.base import Provider


class Providers:
    """Instances are looked after by the provider that launched them; new ones come from `default`."""

    def __init__(self, default: Provider, *others: Provider) -> None:
        self.default = default
        self._by_name = {provider.name: provider for provider in (*others, default)}

    def __iter__(self) -> Iterator[Provider]:
        return iter(self._by_name.values())

    def of(self, name: str) -> Provider | None:
        """The provider on record with an instance; None: it is not configured any more. Rows from before the name was recorded
        have none, and are the default's."""
        return self._by_name.get(name) if name else self.default

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._by_name)
