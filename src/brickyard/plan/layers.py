"""Which layers of its runtime a cluster's conf may name."""

from __future__ import annotations

from collections.abc import Mapping

from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.runtimes import Runtime

SETTING = "spark.brickyard.layers"  # as runtime/node/jvm/layers.py reads it
_SHOWN = 100


def check_layers(conf: Mapping[str, str], key: str, runtimes: Mapping[str, Runtime]) -> None:
    """Raises InvalidParameterValue for a layer that the runtime with that key cannot have: its cluster would start without it."""
    runtime = runtimes.get(key)
    if runtime is None or SETTING not in conf:
        return
    for name in filter(None, (each.strip() for each in conf[SETTING].split(","))):
        if name in runtime.layers:
            continue
        those = [each.key for each in runtimes.values() if name in each.layers and not each.photon]
        instead = f"Choose spark_version {' or '.join(those)}." if those else f"It has {', '.join(runtime.layers) or 'none'}."
        raise InvalidParameterValue(
            f"spark_conf: {SETTING} names {name[:_SHOWN]!r}, which {key} does not have. {instead} See docs/packages.md."
        )
