"""Provides the fixture `brickyard`: a workspace with simulated nodes, to test programs that use clusters (docs/testing.md).

pytest loads this module in every run where Brickyard is installed, so it imports the rest only when the fixture is used.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from databricks.sdk import WorkspaceClient

PATIENCE_S = 60.0


class SimulatedWorkspace:
    """A server in a separate process. Call `turn` as often as you like to set its knobs; changes apply a moment later."""

    def __init__(self, url: str, token: str, knobs: Path) -> None:
        self.url = url
        self.token = token
        self._knobs = knobs

    def client(self) -> WorkspaceClient:
        """The official SDK, configured for this server."""
        from databricks.sdk import WorkspaceClient  # noqa: PLC0415 - half a second of imports

        return WorkspaceClient(host=self.url, token=self.token, auth_type="pat")

    def turn(self, **knobs: float | int | list[str]) -> None:
        """Sets these knobs and resets the others; returns once the server applied them. Raises ValueError for unknown knobs."""
        import time  # noqa: PLC0415 - see above

        from brickyard.providers.simulated import knobsfile  # noqa: PLC0415 - likewise

        draft = self._knobs.with_suffix(".draft")
        draft.write_text("".join(f"{name} = {value!r}\n" for name, value in knobs.items()))
        try:
            knobsfile.read(draft)
        except knobsfile.KnobsError as error:
            raise ValueError(str(error)) from error
        wanted = draft.read_bytes()
        draft.replace(self._knobs)
        seen, deadline = knobsfile.in_force(self._knobs), time.monotonic() + PATIENCE_S
        while not (seen.exists() and seen.read_bytes() == wanted):
            if time.monotonic() > deadline:
                raise TimeoutError(f"the server did not turn its knobs within {PATIENCE_S:.0f} s")
            time.sleep(0.02)


@pytest.fixture(scope="session")
def brickyard_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedWorkspace]:
    """One server for the whole test run, on a free port. It ends with the run, even if the run is killed."""
    from brickyard.cli.down import stop_server  # noqa: PLC0415 - only where the fixture is used
    from brickyard.cli.up import start_detached  # noqa: PLC0415 - likewise
    from brickyard.config.settings import Settings  # noqa: PLC0415 - likewise
    from brickyard.server.datadir import Workspace  # noqa: PLC0415 - likewise

    home = tmp_path_factory.mktemp("brickyard")
    knobs = home / "knobs.toml"
    knobs.touch()
    places: dict[str, Any] = {"data_dir": home / "data", "cache_dir": home / "cache", "simulated_knobs": knobs}
    workspace = Workspace(home / "data")
    started = start_detached(Settings(provider="simulated", port=0, ends_with=os.getpid(), **places), workspace)
    try:
        yield SimulatedWorkspace(started.url, workspace.stored_token(), knobs)
    finally:
        if running := workspace.running():
            stop_server(workspace, running, keep_nodes=False)


@pytest.fixture
def brickyard(brickyard_server: SimulatedWorkspace) -> Iterator[SimulatedWorkspace]:
    """The workspace, with all knobs at their defaults before and after the test. Clusters stay: give yours unique names."""
    brickyard_server.turn()
    yield brickyard_server
    brickyard_server.turn()
