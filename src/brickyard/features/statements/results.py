"""Files of results: a directory for each statement, an Arrow stream for each chunk."""

from __future__ import annotations

import shutil
from pathlib import Path

from brickyard.machine.files import write_atomic


class ResultFiles:
    """Below one directory of the workspace's storage. Methods block, and raise OSError."""

    def __init__(self, place: Path) -> None:
        self._place = place

    def write(self, statement_id: str, index: int, stream: bytes) -> None:
        """Write a chunk, whole or not at all."""
        file = self._file(statement_id, index)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(file, stream)

    def read(self, statement_id: str, index: int) -> bytes:
        return self._file(statement_id, index).read_bytes()

    def remove(self, statement_id: str) -> None:
        """Remove a result, if there is one."""
        shutil.rmtree(self._place / statement_id, ignore_errors=True)

    def _file(self, statement_id: str, index: int) -> Path:
        return self._place / statement_id / f"{index}.arrow"
