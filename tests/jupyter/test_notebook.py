"""Notebooks: cells as commands of the API, and their results as Jupyter shows them. A real Jupyter client, a fake node."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from queue import Empty
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import pytest
from databricks.sdk.service.compute import State
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager

from brickyard.domain.caller import Caller
from brickyard.jupyter import kernelspec
from brickyard.jupyter.editing import bare, completions, inspection
from brickyard.jupyter.notebook import Notebook, NotebookError, split
from brickyard.jupyter.render import outputs
from brickyard.store.store import Store
from tests.contexts.test_commands import Desk
from tests.support.databases import empty_sqlite
from tests.support.edge import edge, sdk
from tests.support.patience import PATIENCE_S, until


class Clusters:
    """`clusters/get` and `clusters/start` of one cluster."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.state = "RUNNING"
        self.started = 0

    async def get(self, caller: Caller, cluster_id: str) -> bytes:
        return json.dumps({"cluster_id": cluster_id, "cluster_name": "mine", "state": self.state}).encode()

    commands = SimpleNamespace(start=None)

    async def _do(self, command: None, caller: Caller, request: Any) -> None:
        """What `ClusterService.start`, the handler, calls."""
        self.started += 1
        self.state = "RUNNING"


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    store = Store.open(empty_sqlite(tmp_path / "test.db"))
    yield Desk(store)
    store.close()


@pytest.fixture
def clusters(desk: Desk) -> Clusters:
    return Clusters(desk)


@pytest.fixture
def url(desk: Desk, clusters: Clusters) -> Iterator[str]:
    with edge(commands=desk.service, clusters=clusters) as address:
        yield address


def notebook(url: str, desk: Desk, said: list[str] | None = None) -> Notebook:
    return Notebook(client=sdk(url), cluster_id=desk.id, say=(said if said is not None else []).append)


@pytest.mark.parametrize(
    ("cell", "found"),
    [
        ("1 + 1", ("python", "1 + 1")),
        ("%sql\nSELECT 1", ("sql", "SELECT 1")),
        ("  %sql SELECT 1,\n2", ("sql", "SELECT 1,\n2")),
        ("%python\n  x", ("python", "  x")),
        ("%sqlite x", ("python", "%sqlite x")),
    ],
)
def test_the_first_word_says_the_language(cell: str, found: tuple[str, str]) -> None:
    assert split(cell) == found


def test_results_become_what_jupyter_shows() -> None:
    assert list(outputs({"resultType": "text", "data": "hello"})) == [("stream", {"name": "stdout", "text": "hello\n"})]
    assert list(outputs({"resultType": "text", "data": ""})) == []
    printed, shown = outputs({"resultType": "text", "data": "<b>x</b>", "isHtml": True, "summary": "printed"})
    assert (printed[0], shown[1]["data"]["text/html"]) == ("stream", "<b>x</b>")
    ((kind, table),) = outputs(
        {"resultType": "table", "schema": [{"name": "<n>"}], "data": [[1], [None], ["<b>"]], "truncated": True}
    )
    assert kind == "display_data"
    assert table["data"]["text/plain"] == "<n>\n1\nnull\n<b>"
    assert ">&lt;n&gt;</th>" in table["data"]["text/html"]
    assert "3 rows, the first of more" in table["data"]["text/html"]
    assert "overflow: auto" in table["data"]["text/html"], "a large one scrolls"
    text, image = outputs({"resultType": "image", "fileName": "data:image/png;base64,aGk=", "summary": "printed"})
    assert text[1]["text"] == "printed\n"
    assert image[1]["data"]["image/png"] == "aGk="
    (before, error) = outputs(
        {
            "resultType": "error",
            "summary": "<span class='ansired'>ValueError</span>: 1 &lt; 2",
            "cause": "line 1\nline 2",
            "data": "x",
        }
    )
    assert before[1]["text"] == "x\n"
    assert error == ("error", {"ename": "ValueError", "evalue": "1 < 2", "traceback": ["line 1", "line 2"]})


def test_cells_share_a_context_and_a_lost_one_is_replaced(desk: Desk, url: str) -> None:
    said: list[str] = []
    mine = notebook(url, desk, said)
    assert mine.run("first") == {"resultType": "text", "data": "first"}
    mine.run("second")
    assert len(desk.node.contexts) == 1
    desk.node.contexts.clear()
    assert mine.run("third") == {"resultType": "text", "data": "third"}
    assert "variables" in said[-1]
    mine.close()
    assert desk.node.contexts == {}


def test_an_editor_gets_an_answer_or_nothing(desk: Desk, url: str) -> None:
    mine = notebook(url, desk)
    assert mine.ask("1") is None, "nothing is started for it"
    mine.run("cell")
    assert mine.ask("1") is None, "the fake answers with the command itself, which is no JSON"
    desk.node.answers["print(__import__('json').dumps(['x']))"] = '["x"]'
    mine.cancel()
    assert mine.ask("['x']") == ["x"], "an interrupt before it has nothing to do with it"
    desk.node.contexts.clear()
    assert mine.ask("['x']") is None


def test_what_an_editor_asks() -> None:
    assert completions("a = 1\nspark.ra", 14) == "get_ipython().complete('', 'spark.ra', 8)"
    assert bare(".gr", [".groupBy", ".groupby"]) == ("gr", ["groupBy", "groupby"])
    assert bare("a.b.c", ["a.b.cd"]) == ("c", ["cd"])
    assert bare("./x.p", ["./x.py", "other"]) == ("./x.p", ["./x.py", "other"])
    assert bare("", ["spark"]) == ("", ["spark"])
    assert inspection("len(range(3))", 7, 0) == "get_ipython().object_inspect_mime('range', detail_level=0)"
    assert inspection("len(", 4, 5) == "get_ipython().object_inspect_mime('len', detail_level=1)"


def test_a_terminated_cluster_is_started(desk: Desk, url: str, clusters: Clusters) -> None:
    said: list[str] = []
    clusters.state = State.TERMINATED.value
    notebook(url, desk, said).run("cell")
    assert clusters.started == 1
    assert "mine is TERMINATED" in said[0]


def test_a_cluster_that_refuses_is_quoted(desk: Desk, url: str) -> None:
    desk.change(spec=desk.cluster.spec.__class__(single_user_name="other@example.com"))
    with pytest.raises(NotebookError, match="single user"):
        notebook(url, desk).run("cell")


def test_a_specification_holds_no_secret_and_is_replaced(tmp_path: Path) -> None:
    wanted = kernelspec.specification(cluster_id="0101-000000-abc", cluster_name="mine", profile="work", config_file="/c")
    place = kernelspec.install(tmp_path / "kernels", "0101-000000-abc", wanted)
    kernelspec.install(tmp_path / "kernels", "0101-000000-abc", wanted)
    assert [path.name for path in place.iterdir()] == ["kernel.json"]
    found = json.loads((place / "kernel.json").read_text())
    assert found["env"] == {
        "BRICKYARD_CLUSTER_ID": "0101-000000-abc", "DATABRICKS_CONFIG_PROFILE": "work", "DATABRICKS_CONFIG_FILE": "/c",
    }  # fmt: skip
    assert found["interrupt_mode"] == "message"


@pytest.fixture
def manager(desk: Desk, url: str, tmp_path: Path) -> Iterator[KernelManager]:
    """The kernel, as Jupyter starts it; over Unix sockets, since Jupyter picks free ports long before the kernel binds them."""
    wanted = kernelspec.specification(cluster_id=desk.id, cluster_name="mine", profile="work", config_file=str(tmp_path / "cfg"))
    kernelspec.install(tmp_path / "kernels", desk.id, wanted)
    (tmp_path / "cfg").write_text(f"[work]\nhost = {url}\ntoken = secret\n")
    specs = KernelSpecManager(kernel_dirs=[str(tmp_path / "kernels")])
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DATABRICKS_")}
    with TemporaryDirectory(prefix="brickyard-") as sockets:  # not tmp_path: a socket's path has at most 107 characters
        made = KernelManager(
            kernel_name=kernelspec.kernel_name(desk.id), kernel_spec_manager=specs, transport="ipc", ip=f"{sockets}/kernel"
        )
        made.start_kernel(env={**environment, "IPYTHONDIR": str(tmp_path / "ipython")})
        yield made
        made.shutdown_kernel(now=True)


def shown(client: Any, request: str, *, patience_s: float = 60) -> list[tuple[str, Any]]:
    """What a cell shows, up to its end."""
    found: list[tuple[str, Any]] = []
    while True:
        try:
            message = client.get_iopub_msg(timeout=patience_s)
        except Empty as error:
            raise AssertionError(found) from error
        if message["parent_header"].get("msg_id") != request:
            continue
        if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
            return found
        found.append((message["msg_type"], message["content"]))


def test_jupyter_runs_interrupts_and_ends_a_notebook(desk: Desk, manager: KernelManager) -> None:
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=PATIENCE_S)
    try:
        assert ("stream", {"name": "stdout", "text": "print(1)\n"}) in shown(client, client.execute("print(1)"))
        slow = client.execute("slow")
        until(lambda: any("slow" in context.values() for context in desk.node.contexts.values()), "the slow command")
        manager.interrupt_kernel()
        assert [(kind, content.get("text") or content.get("ename")) for kind, content in shown(client, slow)][-2:] == [
            ("stream", "printed before\n"),
            ("error", "KeyboardInterrupt"),
        ]
        assert ("stream", {"name": "stdout", "text": "again\n"}) in shown(client, client.execute("again"))
        assert len(desk.node.contexts) == 1
        client.shutdown()
        until(lambda: not desk.node.contexts, "the end of the context")
    finally:
        client.stop_channels()
