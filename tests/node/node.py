"""A node host as its agent drives it: over the pipes of a child process, with everything that it starts ended in the end."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from brickyard.runtime import NODE_CODE
from tests.support.patience import PATIENCE_S

HOST = "127.0.0.1"


class Node:
    """One node host. `status` is what it told last, field by field."""

    def __init__(self, directory: Path, manifest: dict[str, Any]) -> None:
        self.directory = directory
        self.manifest = manifest
        self.status: dict[str, Any] = {}
        self.history: list[dict[str, Any]] = []
        self.lines: list[str] = []
        self._replies: dict[int, dict[str, Any]] = {}
        self._changed = threading.Condition()
        self._last = 0
        directory.mkdir(parents=True)
        env = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": str(directory / "home"), "USER": "spark"}
        env |= {f"{name.upper()}_ROOT": str(directory / name) for name in ("dbfs", "volumes", "workspace")}
        self.process = subprocess.Popen(
            [manifest["python"], str(NODE_CODE / "start.py"), "host"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            message = json.loads(line)
            with self._changed:
                if message.get("event") == "status":
                    del message["event"]
                    self.status.update(message)
                    self.history.append(message)
                elif message.get("event") == "log":
                    self.lines.append(message["line"])
                else:
                    self._replies[message["id"]] = message
                self._changed.notify_all()

    def call(self, op: str, **fields: Any) -> dict[str, Any]:
        """The answer: {"result"} or {"error"}, with "id"."""
        assert self.process.stdin is not None
        with self._changed:
            self._last += 1
            number = self._last
        self.process.stdin.write(json.dumps({"id": number, "op": op, **fields}).encode() + b"\n")
        self.process.stdin.flush()
        with self._changed:
            assert self._changed.wait_for(lambda: number in self._replies, PATIENCE_S), f"no answer to {op}: {self.status}"
            return self._replies.pop(number)

    def result(self, op: str, **fields: Any) -> dict[str, Any]:
        answer = self.call(op, **fields)
        assert "result" in answer, answer
        found: dict[str, Any] = answer["result"]
        return found

    def prepare(self, role: str, heap_mb: int = 1024) -> dict[str, Any]:
        return self.result(
            "prepare", manifest=self.manifest, node_dir=str(self.directory), heap_mb=heap_mb, java_options=[], env={}, role=role
        )

    def become(self, role: str, **fields: Any) -> dict[str, Any]:
        place = {"manifest": self.manifest, "node_dir": str(self.directory)}
        return self.call("become", role=role, assignment=assignment(role, **fields), host=HOST, **place)

    def wait(self, condition: Callable[[dict[str, Any]], bool]) -> None:
        """Until the status is so. A failure that was not asked for ends the wait."""

        def met() -> bool:
            return condition(self.status) or self.status.get("phase") == "failed"

        with self._changed:
            assert self._changed.wait_for(met, PATIENCE_S), f"{self.status}, {self.lines}"
            assert condition(self.status), self.status  # before it changes again

    def wait_phase(self, phase: str) -> None:
        self.wait(lambda status: status.get("phase") == phase)

    def run(self, command: str, language: str = "python", context: str = "test") -> str:
        """A command's text result, or an AssertionError with its cause."""
        return self.finish(self.begin(command, language, context), context)

    def begin(self, command: str, language: str = "python", context: str = "test") -> str:
        self.result("context_create", context_id=context, language="python")
        command_id = f"command-{time.monotonic_ns()}"
        self.result("command_execute", context_id=context, command_id=command_id, language=language, command=command)
        return command_id

    def finish(self, command_id: str, context: str = "test") -> str:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            state = self.result("command_status", context_id=context, command_id=command_id)
            if state["status"] in ("Finished", "Error", "Cancelled"):
                results = state["results"]
                assert results["resultType"] in ("text", "table"), results
                return str(results["data"])
            assert time.monotonic() < deadline, state
            time.sleep(0.05)

    def log(self, name: str = "log4j-active.log") -> str:
        return (self.directory / "logs" / name).read_text(errors="replace")

    def processes(self) -> list[psutil.Process]:
        """The node host and everything below it that lives."""
        with contextlib.suppress(psutil.NoSuchProcess):
            root = psutil.Process(self.process.pid)
            return [root, *root.children(recursive=True)]
        return []

    def command_lines(self) -> str:
        """Those of all its processes."""
        lines = []
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                lines.append(" ".join(process.cmdline()))
        return "\n".join(lines)

    def jvm(self) -> psutil.Process:
        return next(process for process in self.processes() if "PythonGatewayServer" in " ".join(process.cmdline()))

    def close(self) -> None:
        """End it, however it is."""
        below = self.processes()
        self.process.kill()
        self.process.wait()
        for process in below:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(below, timeout=PATIENCE_S)
        shutil.rmtree(self.directory, ignore_errors=True)


def assignment(role: str, **fields: Any) -> dict[str, Any]:
    base = {
        "version": 1, "generation": 1, "cluster_id": "0101-000000-abcdefgh", "cluster_name": "test cluster", "role": role,
        "runtime": "test", "cores": 1, "memory_mb": 1024, "secret": "the cluster's secret", "connect_token": "the-token",
    }  # fmt: skip
    return {**base, **fields}
