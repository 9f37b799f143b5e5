"""A workspace that the tests of a module share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.spark.live import Live


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    made = Live(tmp_path_factory.mktemp("live") / "workspace")
    made.start()
    try:
        yield made
    finally:
        made.close()
