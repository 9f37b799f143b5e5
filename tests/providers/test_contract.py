"""Our own providers, and the example of docs/providers.md, keep the contract that is shipped for everybody's."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from brickyard.config.settings import Settings
from brickyard.domain.node import AssignmentReply, Poll, StatusReply, StatusReport
from brickyard.domain.nodetypes import NodeType
from brickyard.providers.base import CapacityError, LaunchRequest, TransientError
from brickyard.providers.capacity import Hardware
from brickyard.providers.local import LocalProvider
from brickyard.providers.simulated import SimulatedProvider
from brickyard.testing.builders import SMALL
from brickyard.testing.contract import Bench, ProviderContract
from tests.agent.world import FAKES
from tests.support.patience import PATIENCE_S
from tests.support.snippets import ROOT, blocks, home_environment

HUGE = NodeType(node_type_id="huge", num_cores=512, memory_mb=4_000_000, category="test")


class Quiet:
    """A server that gives no work."""

    async def report(self, report: StatusReport) -> StatusReply:
        return StatusReply(server_token="", known=True)

    async def assignment(self, instance_id: str, have: int, wait_s: float, *, same: bool = False) -> AssignmentReply:
        await asyncio.sleep(wait_s)
        return AssignmentReply(server_token="", known=True)

    async def poll(self, poll: Poll) -> AssignmentReply:
        return await self.assignment(poll.instance_id, poll.have, poll.wait)


class TestSimulated(ProviderContract):
    @pytest.fixture
    def bench(self) -> Iterator[Bench]:
        provider = SimulatedProvider(node_types=[SMALL])
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever)
        thread.start()

        async def attach() -> None:
            provider.attach(Quiet())

        def reopen() -> SimulatedProvider:  # its instances live in its process: a server that starts anew finds the same one
            asyncio.run_coroutine_threadsafe(attach(), loop).result(PATIENCE_S)
            return provider

        made = Bench(reopen(), reopen=reopen)

        def refuse(**knobs: float) -> LaunchRequest:
            for name, value in knobs.items():
                setattr(provider.knobs, name, value)
            return made.request()

        made.refusals = {
            CapacityError: lambda: refuse(max_instances=0),
            TransientError: lambda: refuse(max_instances=10, launch_error=1.0),
        }
        try:
            yield made
        finally:
            for task in asyncio.all_tasks(loop):
                loop.call_soon_threadsafe(task.cancel)
            loop.call_soon_threadsafe(lambda: loop.call_later(0.05, loop.stop))
            thread.join(PATIENCE_S)
            loop.close()


class TestLocal(ProviderContract):
    @pytest.fixture
    def bench(self, tmp_path: Path) -> Iterator[Bench]:
        settings = Settings(data_dir=tmp_path / "data", cache_dir=tmp_path / "cache")

        def reopen() -> LocalProvider:
            return LocalProvider(
                settings=settings,
                server_file=tmp_path / "data" / "server.json",
                node_types=(SMALL, HUGE),
                machine=Hardware(8, 32 * 1024),
                environments={"fake": "fake"},
                node_code_dir=FAKES,
            )

        def agents(instance_id: str) -> int:
            config = str(settings.data_dir / "instances" / instance_id / "agent.json")
            return sum(config in (process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"]))

        made = Bench(reopen(), reopen=reopen, count=agents)
        made.refusals = {CapacityError: lambda: made.request(HUGE)}
        yield made
        made.provider.close(keep_nodes=False)


def test_the_example_of_the_page_keeps_it_too(tmp_path: Path) -> None:
    page = [block.text for block in blocks(ROOT / "docs" / "providers.md") if block.language == "python"]
    for text in page:
        (tmp_path / text.splitlines()[0].strip('"')).write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "--basetemp", "run", "test_plain_provider.py"],
        cwd=tmp_path, env=home_environment(tmp_path), capture_output=True, text=True, check=False, timeout=4 * PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "9 passed" in done.stdout
