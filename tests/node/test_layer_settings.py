"""The Spark settings of a runtime's layers, merged with a cluster's own."""

from __future__ import annotations

import pytest

from brickyard.runtime.node.spark.layers import (
    BOTH_CATALOGS,
    CATALOG,
    DELTA_CATALOG,
    DELTA_ENTRIES,
    DELTA_EXTENSION,
    DELTA_PARTITIONS,
    EXTENSIONS,
    ICEBERG_CATALOG,
    LISTING,
    settings,
)


def test_delta_has_its_extension_and_its_catalog() -> None:
    found = settings(["delta"], {}, cores=4)
    assert found == {
        EXTENSIONS: DELTA_EXTENSION,
        CATALOG: DELTA_CATALOG,
        DELTA_ENTRIES: "true",
        DELTA_PARTITIONS: "4",
        LISTING: "32",
    }
    assert settings([], {}, cores=4) == {}


@pytest.mark.parametrize(
    ("theirs", "merged"),
    [
        ("a.Mine", f"{DELTA_EXTENSION},a.Mine"),
        (f" a.Mine , {DELTA_EXTENSION},b.More,", f"{DELTA_EXTENSION},a.Mine,b.More"),
        (DELTA_EXTENSION, DELTA_EXTENSION),
    ],
)
def test_a_clusters_own_extensions_stay_in_their_order(theirs: str, merged: str) -> None:
    assert settings(["delta"], {EXTENSIONS: theirs}, cores=1)[EXTENSIONS] == merged


def test_a_clusters_own_settings_win() -> None:
    theirs = {CATALOG: "a.Catalog", DELTA_PARTITIONS: "7", LISTING: "9"}
    assert settings(["delta"], theirs, cores=4).items() >= theirs.items()


def test_where_iceberg_is_a_part_of_the_runtime_both_catalogs_are_one() -> None:
    assert settings(["delta"], {CATALOG: ICEBERG_CATALOG}, cores=1, iceberg=True)[CATALOG] == BOTH_CATALOGS
    assert settings(["delta"], {CATALOG: ICEBERG_CATALOG}, cores=1)[CATALOG] == ICEBERG_CATALOG, "a user's own"
