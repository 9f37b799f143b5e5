"""A real Slurm for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.slurm import Slurm, SlurmMissing


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    """Skipped only where Slurm is not installed."""
    try:
        with Slurm.running() as running:
            yield running
    except SlurmMissing as missing:
        pytest.skip(str(missing))
