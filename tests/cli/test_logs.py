"""server.log is bounded while the server runs."""

from __future__ import annotations

import os
from pathlib import Path

from brickyard.logs import serverlog


def test_the_log_is_rotated_under_those_who_write_it(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    output = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(output, b"first\n" * 10)
        assert not serverlog.rotate(path, limit=60, outputs=(output,))
        os.write(output, b"second\n")
        assert serverlog.rotate(path, limit=60, outputs=(output,))
        os.write(output, b"third\n")
        assert path.read_bytes() == b"third\n"
        assert path.stat().st_mode & 0o777 == 0o600
        assert (tmp_path / "server.log.1").read_bytes() == b"first\n" * 10 + b"second\n"
    finally:
        os.close(output)
    assert not serverlog.rotate(tmp_path / "missing", limit=0)
