"""Child processes that speak JSON lines: what they say is heard, and none outlives who has started it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from brickyard.machine import processes
from brickyard.machine.children import TAIL_CHARACTERS, TAIL_LINES, Child, environment
from tests.support.patience import PATIENCE_S, until

ECHO = "import sys\nfor line in sys.stdin: print(line, end='', flush=True)"


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


async def test_a_conversation() -> None:
    async with await Child.start(python(ECHO)) as child:
        for number in range(3):
            await child.send({"number": number})
            assert json.loads(await child.line()) == {"number": number}
        child.close_input()
        assert await child.line() == b""
        assert await child.ended() == 0
        with pytest.raises(ConnectionError):
            await child.send("more")
    assert child.exit_code == 0


async def test_a_line_that_is_too_long_is_dropped_and_the_next_one_is_read() -> None:
    async with await Child.start(python("print('x' * 500_000)\nprint('next')"), longest=1000) as child:
        with pytest.raises(ValueError, match="limit"):
            await child.line()
        line = b"x"
        while line not in (b"next\n", b""):
            try:
                line = await child.line()
            except ValueError:
                continue
        assert line == b"next\n"


async def test_the_end_of_stderr_is_kept_and_never_blocks_the_child() -> None:
    code = (
        f"import sys\nfor n in range(1000): print(n, 'x' * {2 * TAIL_CHARACTERS}, file=sys.stderr)\nprint('why', file=sys.stderr)"
    )
    async with await Child.start(python(code)) as child:
        async with asyncio.timeout(PATIENCE_S):
            assert await child.line() == b""
            await child.ended()
        assert child.last_words == "why"
        assert len(child.tail) == TAIL_LINES
        assert max(map(len, child.tail)) == TAIL_CHARACTERS
    async with await Child.start(python("")) as silent:
        await silent.ended()
        assert silent.last_words == "no message"


async def test_somebody_else_may_hear_stderr() -> None:
    heard: list[str] = []

    class Listener:
        def error_line(self, line: str) -> None:
            heard.append(line)

    code = "import os, time\nos.write(2, b'one\\ntw')\ntime.sleep(0.1)\nos.write(2, b'o')"
    async with await Child.start(python(code), errors=Listener()) as child:
        await child.ended()
        assert (heard, list(child.tail)) == (["one", "two"], [])


async def test_it_sees_nothing_of_our_environment_that_it_does_not_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    code = "import json, os\nprint(json.dumps([dict(os.environ), os.getcwd(), os.getsid(0) == os.getpid()]))"
    async with await Child.start(python(code)) as child:
        seen, directory, leads = json.loads(await child.line())
    assert "AWS_SECRET_ACCESS_KEY" not in seen
    assert environment().items() <= seen.items()
    assert (directory, leads) == ("/", True)


DEAF = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
below = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(below.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("grace_s", [0.0, 0.2])
async def test_one_that_ends_neither_at_the_end_of_its_input_nor_at_sigterm_is_killed_with_what_it_started(
    grace_s: float,
) -> None:
    child = await Child.start(python(DEAF))
    below = processes.find(int(await child.line()))
    assert below is not None
    await child.end(grace_s=grace_s)
    assert child.exit_code == -signal.SIGKILL
    await asyncio.to_thread(until, lambda: not processes.alive(below), "the end of what it started")
    await child.end()  # once more is no error


async def test_one_that_hears_sigterm_may_tidy_up() -> None:
    code = (
        "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\nprint(1, flush=True)\ntime.sleep(600)"
    )
    child = await Child.start(python(code))
    await child.line()
    await child.end(grace_s=PATIENCE_S)
    assert child.exit_code == 7


async def test_what_outlives_it_and_holds_its_pipes_delays_nothing() -> None:
    code = "import subprocess, sys\nprint(subprocess.Popen(['sleep', '600'], start_new_session=True).pid, flush=True)"
    child = await Child.start(python(code))
    survivor = int(await child.line())
    try:
        async with asyncio.timeout(PATIENCE_S):
            assert await child.ended() == 0
            await child.end()
    finally:
        os.kill(survivor, signal.SIGKILL)


async def test_one_that_is_cut_off_while_it_is_read_can_be_ended() -> None:
    child = await Child.start(python(ECHO))
    reading = asyncio.create_task(child.line())
    await asyncio.sleep(0.05)
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    async with asyncio.timeout(PATIENCE_S):
        await child.end()
    assert child.exit_code is not None


async def test_a_program_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="missing"):
        await Child.start([str(tmp_path / "missing")])


PARENT = f"""
import asyncio, sys
from brickyard.machine.children import Child

async def main():
    child = await Child.start([sys.executable, "-c", {ECHO!r}])
    print(child.pid, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


def test_it_ends_with_a_parent_that_is_killed() -> None:
    with subprocess.Popen(python(PARENT), stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = processes.find(int(parent.stdout.readline()))
        assert child is not None
        parent.kill()
    until(lambda: not processes.alive(child), "the child's end")
