"""The kernel for Jupyter: its messages, on top of a `Notebook`."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from databricks.sdk import WorkspaceClient
from ipykernel.kernelbase import Kernel
from IPython.core.inputtransformer2 import TransformerManager

from brickyard import __version__
from brickyard.jupyter.editing import bare, completions, inspection
from brickyard.jupyter.kernelspec import CLUSTER_VARIABLE
from brickyard.jupyter.notebook import Notebook, NotebookError, split
from brickyard.jupyter.render import outputs

MAX_MATCHES = 1_000


class ClusterKernel(Kernel):
    """One notebook. The environment names its cluster (`kernelspec.py`), the SDK's usual settings its workspace."""

    implementation = "brickyard"
    implementation_version = __version__
    language_info = {
        "name": "python",
        "mimetype": "text/x-python",
        "file_extension": ".py",
        "pygments_lexer": "ipython3",
        "codemirror_mode": {"name": "ipython", "version": 3},
    }
    banner = "Python on a Brickyard cluster: spark, sc, display and dbutils are defined; %sql as a cell's first line runs SQL."

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)  # type: ignore[no-untyped-call] # as ipykernel is written
        self._notebook: Notebook | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def do_execute(self, code: str, silent: bool, *_more: Any, **_options: Any) -> dict[str, Any]:
        """Runs a cell; other messages are answered meanwhile."""
        self._loop = asyncio.get_running_loop()
        reply = {"status": "ok", "execution_count": self.execution_count, "payload": [], "user_expressions": {}}
        if not code.strip():
            return reply
        try:
            results = await asyncio.to_thread(self._open().run, code)
        except Exception as error:
            name = type(error).__name__
            return self._fail({"ename": name, "evalue": str(error), "traceback": [f"{name}: {error}"]})
        for kind, content in outputs(results):
            if kind == "error":
                return self._fail(content)
            if not silent:
                self._show(kind, content)
        return reply

    async def do_complete(self, code: str, cursor_pos: int | None) -> dict[str, Any]:
        """Completions at the cursor from the context's IPython."""
        at = len(code) if cursor_pos is None else cursor_pos
        text, matches = bare(*(await self._ask(code, completions(code, at)) or ("", [])))
        ends = {"cursor_start": at - len(text), "cursor_end": at}
        return {"status": "ok", "matches": matches[:MAX_MATCHES], "metadata": {}, **ends}

    async def do_inspect(self, code: str, cursor_pos: int, detail_level: int = 0, _omit: Any = ()) -> dict[str, Any]:
        """Signature and documentation of the name at the cursor; with `detail_level` 1, its source."""
        found = await self._ask(code, inspection(code, cursor_pos, detail_level))
        return {"status": "ok", "found": bool(found), "data": found or {}, "metadata": {}}

    async def do_is_complete(self, code: str) -> dict[str, str]:
        """Whether a console should run the input or wait for more."""
        if split(code)[0] != "python":
            return {"status": "complete"}
        status, indent = TransformerManager().check_complete(code)  # type: ignore[no-untyped-call] # as IPython is written
        return {"status": status, "indent": " " * (indent or 0)}

    async def _ask(self, code: str, expression: str) -> Any:
        """The context's answer for an editor of `code`, or None."""
        if self._notebook is None or split(code)[0] != "python":
            return None
        return await asyncio.to_thread(self._notebook.ask, expression)

    async def interrupt_request(self, stream: Any, ident: Any, parent: Any) -> None:
        """Cancels the cell on the cluster: a signal to this process could not stop it."""
        if self._notebook is not None:
            await asyncio.to_thread(self._notebook.cancel)
        if self.session is not None:
            self.session.send(stream, "interrupt_reply", {"status": "ok"}, parent, ident=ident)

    async def do_shutdown(self, restart: bool) -> dict[str, Any]:
        """Ends the context: a restart loses its variables, as in any kernel."""
        if self._notebook is not None:
            self._notebook.cancel()
            await asyncio.to_thread(self._notebook.close)
        return {"status": "ok", "restart": restart}

    def _open(self) -> Notebook:
        if self._notebook is None:
            cluster_id = os.environ.get(CLUSTER_VARIABLE, "")
            if not cluster_id:
                raise NotebookError(f"{CLUSTER_VARIABLE} is not set: create the kernel with `brickyard kernel install CLUSTER`.")
            self._notebook = Notebook(client=WorkspaceClient(), cluster_id=cluster_id, say=self._say)
        return self._notebook

    def _say(self, text: str) -> None:
        """Called from the cell's thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._show, "stream", {"name": "stderr", "text": text})

    def _fail(self, content: dict[str, Any]) -> dict[str, Any]:
        self._show("error", content)
        return {"status": "error", "execution_count": self.execution_count, **content}

    def _show(self, kind: str, content: dict[str, Any]) -> None:
        self.send_response(self.iopub_socket, kind, content)  # type: ignore[no-untyped-call] # as above
