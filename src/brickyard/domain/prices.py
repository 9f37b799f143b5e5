"""Prices of node types: the catalogue's list prices, or those that the workspace sets (`node_prices`)."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence

import msgspec

from brickyard.domain.decoding import converter
from brickyard.domain.nodetypes import NodeType, NodeTypes

MAX_PRICE = 1_000_000.0


class Prices(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A price list. A node type that it does not name keeps the price of the catalogue. `currency` is only a label."""

    currency: str = "USD"
    per_hour: dict[str, float] = {}


_to_prices = converter(Prices)


def parse_prices(text: str) -> Prices:
    """A price list from TOML. Raises ValueError with what is wrong."""
    try:
        found = _to_prices(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"not valid TOML: {error}") from error
    except msgspec.ValidationError as error:
        raise ValueError(f"{error}. It has currency and the table per_hour, with a number for each node type") from error
    for name, price in found.per_hour.items():
        if not (math.isfinite(price) and 0 <= price <= MAX_PRICE):
            raise ValueError(f"per_hour of {name!r} is {price:g}; it must be between 0 and {MAX_PRICE:g}")
    if not 1 <= len(found.currency) <= 16 or not found.currency.isprintable():
        raise ValueError("currency must have 1 to 16 characters, such as EUR")
    return found


def priced(offered: NodeTypes, prices: Prices) -> NodeTypes:
    """The offered node types at the workspace's prices. Returns the same object while the same is offered."""
    last: tuple[Sequence[NodeType], Sequence[NodeType]] | None = None

    def now() -> Sequence[NodeType]:
        nonlocal last
        types, known = offered(), last
        if known is None or known[0] is not types:
            known = last = (types, tuple(_at(each, prices.per_hour) for each in types))
        return known[1]

    return now if prices.per_hour else offered


def _at(node_type: NodeType, per_hour: Mapping[str, float]) -> NodeType:
    price = per_hour.get(node_type.node_type_id)
    return node_type if price is None else msgspec.structs.replace(node_type, price_per_hour=price)
