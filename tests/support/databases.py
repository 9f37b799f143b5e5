"""Empty databases with the newest schema, copied from one that was migrated once: the migrations take longer than most tests."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

import pytest

from brickyard.store.store import Store

KINDS = ("sqlite", "postgresql")

# A test with it runs on each kind, because it runs statements that no test of the store does, or is about two at once.
both_databases = pytest.mark.parametrize("database", KINDS)


@functools.cache
def _migrated() -> bytes:
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "empty.db"
        Store.open(f"sqlite:///{file}").close()
        return file.read_bytes()


def empty_sqlite(file: Path) -> str:
    """Makes `file` an empty SQLite database; returns its URL."""
    file.write_bytes(_migrated())
    return f"sqlite:///{file}"
