"""A driver with execution contexts and no cluster around it: `kernel_host.py` in a runtime's interpreter, and what runs there."""

from __future__ import annotations

import contextlib
import html
import itertools
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from brickyard.domain.runtimes import RuntimeManifest
from brickyard.runtime import NODE_CODE
from tests.support.patience import PATIENCE_S, until
from tests.support.runtimes import manifest_of

OVER = ("Finished", "Error", "Cancelled")


class Refused(Exception):
    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Host:
    """`kernel_host.py` at the other end of two pipes."""

    def __init__(self, runtime: RuntimeManifest, node_dir: Path, *options: str, python_path: str = "") -> None:
        self.node_dir = node_dir
        env = {**os.environ, "JAVA_HOME": runtime.java_home, "SPARK_HOME": runtime.spark_home, "PYSPARK_PYTHON": runtime.python}
        env["SPARK_DIST_CLASSPATH"] = runtime.classes
        for name in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"):
            env.pop(name, None)
        if python_path:
            env["PYTHONPATH"] = python_path
        program, manifest = Path(__file__).with_name("kernel_host.py"), msgspec.json.encode(runtime).decode()
        command = [runtime.python, str(program), str(NODE_CODE), str(node_dir), manifest, *options]
        self.process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._read()
        self._numbers = itertools.count(1)

    def __getattr__(self, op: str) -> Any:
        def call(*args: Any) -> Any:
            assert self.process.stdin is not None
            print(json.dumps({"op": op, "args": args}), file=self.process.stdin, flush=True)
            return self._read()

        return call

    def _read(self) -> Any:
        assert self.process.stdout is not None
        answer = json.loads(self.process.stdout.readline() or '{"error": ["GONE", "the host ended"]}')
        if "error" in answer:
            raise Refused(*answer["error"])
        return answer["result"]

    def new(self, language: str = "python", user: str = "") -> Context:
        name = f"c{next(self._numbers)}"
        self.create(name, language, user)
        context = Context(self, name)
        context.wait_ready()
        return context

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(PATIENCE_S) == 0
        assert list((self.node_dir / "tmp").iterdir()) == []


class Context:
    def __init__(self, host: Host, name: str) -> None:
        self.host = host
        self.name = name

    def wait_ready(self) -> None:
        until(lambda: self.host.status(self.name)["status"] != "Pending")
        assert self.host.status(self.name)["status"] == "Running", self.host.status(self.name)

    def start(self, code: str, language: str = "python") -> str:
        name = f"k{next(self.host._numbers)}"
        self.host.execute(self.name, name, language, code)
        return name

    def end_of(self, command: str) -> dict[str, Any]:
        until(lambda: self.host.command_status(self.name, command)["status"] in OVER)
        status: dict[str, Any] = self.host.command_status(self.name, command)
        return status

    def run(self, code: str, language: str = "python") -> dict[str, Any]:
        status = self.end_of(self.start(code, language))
        assert status["status"] == "Finished", status
        results: dict[str, Any] = status["results"]
        return results

    def text(self, code: str) -> str:
        results = self.run(code)
        assert results["resultType"] == "text", results
        return str(results["data"])

    def failure(self, code: str, language: str = "python") -> str:
        results = self.run(code, language)
        assert results["resultType"] == "error", results
        return summary(results)

    def cancel_once(self, code: str, *, running: str) -> dict[str, Any]:
        """Cancel it as soon as the file `running` is there (the code makes it) or, when that is "job", a Spark job runs."""
        command = self.start(code)
        work = self.host.node_dir / "work"
        until(lambda: bool(self.host.active_jobs()) if running == "job" else (work / running).exists())
        self.host.cancel(self.name, command)
        return self.end_of(command)


def summary(results: dict[str, Any]) -> str:
    return html.unescape(re.sub(r"<[^>]*>", "", results["summary"]))


@contextlib.contextmanager
def host_of(runtime: str, directory: Path, *options: str, python_path: str = "") -> Iterator[Host]:
    """A host until the block is left, with what it must leave behind: nothing."""
    made = Host(msgspec.convert(manifest_of(runtime), RuntimeManifest), directory, *options, python_path=python_path)
    try:
        yield made
        made.end()
    finally:
        made.process.kill()
        made.process.wait()
