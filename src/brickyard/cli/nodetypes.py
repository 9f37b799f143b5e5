"""Which node type a command takes when none is named."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from brickyard.cli import CliError


def smallest_node_type(offered: Iterable[dict[str, Any]]) -> str:
    """The id of the one with the least memory, and of these with the fewest cores, without GPUs if there is one. `offered`: as
    the API lists them. Raises CliError."""
    found = [each for each in offered if not each.get("is_deprecated")]
    if not found:
        raise CliError("this workspace offers no node type. See `brickyard doctor`.")
    return str(min(found, key=_order)["node_type_id"])


def _order(offer: dict[str, Any]) -> tuple[int, int, float, str]:
    return offer.get("num_gpus") or 0, offer["memory_mb"], offer["num_cores"], offer["node_type_id"]
