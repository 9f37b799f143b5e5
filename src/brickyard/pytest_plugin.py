"""For tests of programs that use clusters: the fixture `brickyard`, a workspace whose nodes are simulated (docs/testing.md).

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
    """A server of its own process. `turn` its knobs as often as you like: a moment later they count."""

    def __init__(self, url: str, token: str, knobs: Path) -> None:
        self.url = url
        self.token = token
        self._knobs = knobs

    def client(self) -> WorkspaceClient:
        """The official SDK, pointed here."""
        from databricks.sdk import WorkspaceClient  # noqa: PLC0415 - half a second of imports

        return WorkspaceClient(host=self.url, token=self.token, auth_type="pat")

    def turn(self, **knobs: float | int | list[str]) -> None:
        """Set these knobs, and all others back; returns when the server has done so. Raises ValueError for what is no knob."""
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
    """One server for the whole run, on a free port; it ends with the run, however that ends."""
    from brickyard.cli.down import stop_server  # noqa: PLC0415 - only where the fixture is used
    from brickyard.cli.up import start_detached  # noqa: PLC0415 - likewise
    from brickyard.config import Settings  # noqa: PLC0415 - likewise
    from brickyard.lifecycle.workspace import Workspace  # noqa: PLC0415 - likewise

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
    """The workspace, with every knob as it is by default; after the test too. Clusters stay: give yours names of their own."""
    brickyard_server.turn()
    yield brickyard_server
    brickyard_server.turn()
