"""Which layers of its runtime a cluster's conf may name."""

from __future__ import annotations

from collections.abc import Mapping

from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.runtimes import Runtime
from brickyard.domain.spec import ISOLATING_MODES, ClusterSpec

SETTING = "spark.brickyard.layers"  # as runtime/node/jvm/layers.py reads it
ICEBERG = "iceberg"
_SHOWN = 100


def check_layers(spec: ClusterSpec, runtimes: Mapping[str, Runtime]) -> None:
    """Raises InvalidParameterValue for a layer that the cluster's runtime cannot have: it would start without it."""
    conf, runtime = spec.spark_conf or {}, runtimes.get(spec.spark_version or "")
    if runtime is None or SETTING not in conf:
        return
    names = [name for each in conf[SETTING].split(",") if (name := each.strip())]
    # Spark 3.5 has Iceberg without a layer. The same conf suits it.
    for name in names:
        if name not in runtime.layers and not (name == ICEBERG and runtime.iceberg):
            raise _refusal(name, runtime, runtimes)
    if ICEBERG in names and spec.data_security_mode in ISOLATING_MODES:
        raise InvalidParameterValue(
            f"spark_conf: {SETTING} names {ICEBERG!r}, which cannot be used with data_security_mode {spec.data_security_mode}: "
            "it has not been tested where users are kept apart. Choose SINGLE_USER or NONE."
        )


def _refusal(name: str, runtime: Runtime, runtimes: Mapping[str, Runtime]) -> InvalidParameterValue:
    those = [each.key for each in runtimes.values() if name in each.layers and not each.photon]
    instead = f"Choose spark_version {' or '.join(those)}." if those else f"It has {', '.join(runtime.layers) or 'none'}."
    return InvalidParameterValue(
        f"spark_conf: {SETTING} names {name[:_SHOWN]!r}, which {runtime.key} does not have. {instead} See docs/packages.md."
    )
