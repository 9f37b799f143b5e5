"""The workspace's price list: the file that `node_prices` names."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from pathlib import Path

from brickyard.domain.prices import Prices, parse_prices
from brickyard.providers.nodetypes import cloud_types, machine_types

_OURS = ("local", "simulated")  # providers whose node types are known before they run


def read(path: Path | None) -> Prices:
    """The price list in a file, or list prices only. Raises ValueError with what is wrong."""
    if path is None:
        return Prices()
    try:
        text = path.read_text()
    except OSError as error:
        raise ValueError(f"it cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ValueError("it is not UTF-8 text") from error
    return parse_prices(text)


def check(prices: Prices, *, providers: Collection[str]) -> None:
    """Raises ValueError for a node type that cannot exist: a misspelt name would leave its type at the list price."""
    if not all(provider in _OURS for provider in providers):
        return
    names = {each.node_type_id for each in (*machine_types(cores=1, memory_mb=1), *cloud_types())}
    for name in prices.per_hour:
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            raise ValueError(f"there is no node type {name!r}" + (f"; the nearest is {near[0]}" if near else ""))
