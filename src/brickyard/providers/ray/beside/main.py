"""The process beside the server: JSON lines on stdin and stdout, and it ends when stdin does, however the server has ended.

The first line is the configuration (`Cluster`'s arguments). Then each line is a call:
{"id": 1, "call": "observe", "with": {}}. An answer has the same id, and either "answer" or "error" with "kind" (invalid or
transient). Lines without an id are news: "ready", "failed" (why Ray cannot be used), and "nodes" whenever Ray's machines have
changed. Beside that, it tells instances whose machine is being drained.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, BinaryIO

WORKERS = 16  # calls at once: more than a server makes, so that one that hangs delays no other
NODES_S = 1.0


class Failed(Exception):
    """Ray cannot be used. `setup`: it never will be, until somebody changes what is installed or set."""

    def __init__(self, message: str, *, setup: bool = False) -> None:
        super().__init__(message)
        self.setup = setup


class Server:
    """Writes lines to the server."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._lock = threading.Lock()

    def tell(self, line: dict[str, Any]) -> None:
        data = json.dumps(line, separators=(",", ":")).encode() + b"\n"
        with self._lock:
            try:
                self._out.write(data)
                self._out.flush()
            except OSError:
                os._exit(0)  # the server has gone


def main() -> int:
    """Answers until stdin ends."""
    server = Server(os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)  # what Ray prints goes to the log
    first = sys.stdin.buffer.readline()
    if not first:
        return 0
    lines = _Lines()
    threading.Thread(target=lines.read, daemon=True).start()  # also while Ray is being reached: the server may end meanwhile
    try:
        cluster = _connect(json.loads(first))
    except Failed as error:
        server.tell({"news": "failed", "message": str(error), "setup": error.setup})
        return 1
    server.tell({"news": "ready"})
    threading.Thread(target=_tell_nodes, args=(cluster, server), daemon=True).start()
    pool = ThreadPoolExecutor(WORKERS)
    while True:
        line = lines.next()
        pool.submit(_answer, cluster, server, json.loads(line))


class _Lines:
    """Reads stdin. Its end ends this process at once: whatever hangs in Ray must not keep it."""

    def __init__(self) -> None:
        self._found: list[bytes] = []
        self._more = threading.Condition()

    def read(self) -> None:
        for line in sys.stdin.buffer:
            with self._more:
                self._found.append(line)
                self._more.notify()
        os._exit(0)

    def next(self) -> bytes:
        with self._more:
            while not self._found:
                self._more.wait()
            return self._found.pop(0)


def _connect(config: dict[str, Any]) -> Any:
    try:
        import ray  # noqa: F401, PLC0415 - its absence has an error of its own
    except ImportError as error:
        raise Failed(f"{sys.executable} has no Ray ({error})", setup=True) from error
    from .cluster import Cluster, NotReached  # noqa: PLC0415 - imports ray

    try:
        return Cluster(**config)
    except NotReached as error:
        raise Failed(str(error), setup=error.setup) from error


def _answer(cluster: Any, server: Server, line: dict[str, Any]) -> None:
    from .cluster import Refused  # noqa: PLC0415 - imports ray

    try:
        answer = getattr(cluster, f"do_{line['call']}")(**line["with"])
    except Refused as error:
        server.tell({"id": line["id"], "error": str(error), "kind": "invalid"})
    except Exception as error:  # Ray raises many kinds; none of them says that it can never succeed
        text = " ".join(str(error).split())[:500]
        server.tell({"id": line["id"], "error": f"{type(error).__name__}: {text}", "kind": "transient"})
    else:
        server.tell({"id": line["id"], "answer": answer})


def _tell_nodes(cluster: Any, server: Server) -> None:
    last = None
    while True:
        try:
            cluster.tell_who_leaves()
            nodes = cluster.do_nodes()
        except Exception:  # as above; the next look may succeed
            nodes = last
        if nodes != last:
            server.tell({"news": "nodes", "nodes": nodes})
            last = nodes
        time.sleep(NODES_S)
