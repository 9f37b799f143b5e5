"""What commands load: help nothing, and `up` no more than it takes to find out that it cannot start."""

from __future__ import annotations

import subprocess
import sys

from tests.support.patience import PATIENCE_S

SHOW = "import sys; print(*sorted(sys.modules))"
OURS = "brickyard."


def loaded(code: str) -> set[str]:
    """The modules that a fresh interpreter has after that code."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{SHOW}"], capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    return set(done.stdout.splitlines()[-1].split())


def test_help_loads_no_command() -> None:
    code = "from brickyard.cli import cli\ncli(['--help'], standalone_mode=False)"
    assert {name for name in loaded(code) if name.startswith(OURS)} == {
        "brickyard.cli", "brickyard.interrupts", "brickyard.machine", "brickyard.machine.locales",
    }  # fmt: skip


def test_status_loads_no_more_than_it_shows() -> None:
    found = loaded("import brickyard.cli.status")
    assert not found & {"importlib.metadata", "psutil", "rich", "structlog", "brickyard.domain.spec", "brickyard.storage.logs"}


def test_up_loads_no_server_before_it_has_its_port() -> None:
    found = loaded("import brickyard.cli.up")
    assert "brickyard.server.preflight" in found
    assert not found & {"brickyard.server.process", "brickyard.server.assembly", "brickyard.store", "brickyard.api"}


def test_a_server_loads_no_library_before_it_is_needed() -> None:
    found = loaded("import brickyard.server.process")
    assert "brickyard.server.assembly" in found
    assert not found & {"aiohttp", "alembic", "grpc", "joserfc", "opentelemetry", "psycopg"}, "each is a part of every start"
