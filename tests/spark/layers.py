"""Runtimes with their layers, for tests on real Spark."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from brickyard.runtime import catalogue
from brickyard.runtime.layers import missing
from brickyard.runtime.layerwork import require_layers
from brickyard.runtime.node.jvm.layers import USUAL
from tests.support.runtimes import cache_dir, manifest_of


def with_layers(runtime: str, names: Sequence[str] = USUAL) -> None:
    """Installs the runtime with those of the layers that it can have. Skips the test where no repository has them."""
    manifest_of(runtime)
    found = catalogue.find(runtime)
    assert found is not None
    problems = require_layers(found.environment, cache_dir=cache_dir(), names=names)
    if missing(found.environment, cache_dir(), names):
        pytest.skip(f"no {', '.join(names)}: {problems}")
