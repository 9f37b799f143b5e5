"""The node host's process: its pipe to the agent, its signals and its threads.

Runs as `python start.py host` in the runtime's interpreter, inside the sandbox. The agent talks to it over its first two file
descriptors. When that pipe closes, the agent is gone, and the node host ends everything here.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import FrameType

from ..contexts.process import Cells
from ..processes import Reaper, Spawner, adopt_orphans, hide_memory
from ..protocol import Channel
from .main import NodeHost

OP_THREADS = 16
REAP_EVERY_S = 5.0


def reap_for_ever() -> None:
    reaper = Reaper()
    while True:
        time.sleep(REAP_EVERY_S)
        reaper.sweep(time.monotonic())


def main() -> None:
    hide_memory()  # this process knows the ways into the JVM and every kernel's key
    channel = Channel.take_over()
    adopt_orphans()
    spawner = Spawner()
    host = NodeHost(channel=channel, spawner=spawner, cells=Cells.inherited())

    def terminate(_number: int, _frame: FrameType | None) -> None:
        host.end(0)

    signal.signal(signal.SIGTERM, terminate)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=reap_for_ever, name="reaper", daemon=True).start()
    pool = ThreadPoolExecutor(max_workers=OP_THREADS, thread_name_prefix="op")
    try:
        for message in channel.messages():
            if message.get("op") == "pulse":  # must not queue behind operations that wait for a hanging Spark
                host.handle(message)
            else:
                with contextlib.suppress(RuntimeError):  # no new thread can be started now: one of the others will do it
                    pool.submit(host.handle, message)
    finally:
        host.end(0)
