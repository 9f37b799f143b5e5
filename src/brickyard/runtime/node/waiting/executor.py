"""The waiting executor of a node, as the node host knows it: starts its holder, and leads Spark's worker to it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

from ..jvm.scala import Scala
from ..processes import Spawner
from ..protocol import Log

if TYPE_CHECKING:
    from ..documents import ManifestDocument

CODE = Path(__file__).resolve().parents[1]
JAVA_HOME = "JAVA_HOME"
LONGEST = 120  # bytes: older kernels read no more than 127 of a first line


class WaitingExecutor:
    """At most one executor's JVM, for the first command with which Spark's worker in this node's JVM starts one."""

    def __init__(self, scala: Scala, *, spawner: Spawner, manifest: ManifestDocument, node_dir: Path, log: Log) -> None:
        self._scala, self._spawner, self._log = scala, spawner, log
        self._python, self._java_home = manifest["python"], manifest["java_home"]
        self._directory = node_dir / "waiting"
        self._process: subprocess.Popen[bytes] | None = None
        self._changed = threading.Condition()
        self._event = ""

    def open(self) -> None:
        """Starts the holder; from now on Spark's worker starts our launcher in Java's place. Raises OSError."""
        if len(self._python) > LONGEST or " " in self._python:
            self._log.log(f"no executor waits on this node: {self._python} cannot be the interpreter in a program's first line")
            self._hear({"event": "ended"})
            return
        home = self._directory / "java"
        (home / "bin").mkdir(mode=0o700, parents=True, exist_ok=True)
        link, program = self._directory / "home", home / "bin" / "java"
        with contextlib.suppress(FileExistsError):
            link.symlink_to(self._java_home)
        program.write_text(f"#!{self._python} -IS\n{(CODE / 'waiting' / 'launcher.py').read_text()}")
        program.chmod(0o700)
        argv = [self._python, str(CODE / "start.py"), "hold-executor", str(self._directory)]
        self._process = self._spawner.popen(argv, env=dict(os.environ), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        threading.Thread(target=self._listen, name="waiting-executor", daemon=True).start()
        with self._changed:
            self._changed.wait_for(lambda: self._event)
        self._lead(str(home))

    def settle(self) -> None:
        """No executor of a rehearsal is started any more: the next one is a cluster's."""
        if self._event == "open":
            self.close()  # there was no rehearsal

    def close(self) -> None:
        """Ends the JVM and its holder. Spark's worker starts Java itself from now on."""
        process = self._process
        if process is not None and process.stdin is not None and not process.stdin.closed:
            self._lead(self._java_home)
            with contextlib.suppress(OSError):
                process.stdin.close()  # the holder ends

    def _listen(self) -> None:
        assert self._process is not None and self._process.stdout is not None  # noqa: S101 - `open` has made them
        for line in self._process.stdout:
            self._hear(json.loads(line))
        self._process.wait()
        self._hear({"event": "ended"})

    def _hear(self, message: Mapping[str, Any]) -> None:
        event = str(message["event"])
        if event in ("cold", "failed"):
            self._log.log(f"the executor starts its own JVM: {message['reason']}")
        elif event == "waits":
            self._log.log(f"a JVM waits to be an executor: {message['pid']}")
        elif event == "taken":
            self._log.log(f"the waiting JVM {message['pid']} has become an executor")
        if event not in ("open", "rehearses", "waits"):
            self._lead(self._java_home)
        with self._changed:
            self._event = event
            self._changed.notify_all()

    def _lead(self, java_home: str) -> None:
        with contextlib.suppress(Py4JError, OSError):  # the JVM ends, or has no such class: executors start as they always do
            self._scala.jvm.brickyard.Surroundings.variable(JAVA_HOME, java_home)
