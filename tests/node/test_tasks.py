"""Tasks inside a kernel, without Spark: files, wheels, exits and errors."""

from __future__ import annotations

import http.server
import importlib
import json
import sys
import threading
import traceback
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from brickyard.runtime.node.kernel import task as kernel_task
from brickyard.runtime.node.kernel.place import Place
from brickyard.runtime.node.wire import VALUE_MIME


class Context:
    """Keeps what a SparkContext would hand to the workers."""

    def __init__(self) -> None:
        self.files: list[str] = []

    def addPyFile(self, path: str) -> None:
        self.files.append(path)


class Publisher:
    """IPython's, of what is shown."""

    def __init__(self) -> None:
        self.published: list[dict[str, Any]] = []

    def publish(self, data: dict[str, Any], metadata: object = None, **_options: object) -> None:
        self.published.append(data)


class Session:
    def __init__(self, context: Context) -> None:
        self.sparkContext = context

    def __str__(self) -> str:
        return "spark"


Run = Callable[..., None]
MODULE = """
import sys

def main():
    print("main", sys.argv)

def other():
    print("other")
"""
REQUIRES = """Requires-Dist: surely-not-there (>=1)
Requires-Dist: optional; extra == 'x'
Requires-Dist: pytest"""


@pytest.fixture
def context() -> Context:
    return Context()


@pytest.fixture
def publisher() -> Publisher:
    return Publisher()


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, context: Context, publisher: Publisher) -> Iterator[Run]:
    """The magic, for tasks given as keywords; this process is as before afterwards."""
    (tmp_path / "kernel-1").mkdir()
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "kernel-1"))
    monkeypatch.setenv("DBFS_ROOT", str(tmp_path))
    path, argv, modules = list(sys.path), list(sys.argv), set(sys.modules)
    namespace: dict[str, Any] = {"__name__": "__main__", "spark": Session(context)}

    def jar(spark: object, *given: object) -> None:
        raise kernel_task.JavaFailed("java.lang.IllegalStateException", "no", f"at Main.main {given[:2]}")

    magic = kernel_task.make_task_magic(namespace, jar, Place(), publisher)
    yield lambda **task: magic("", json.dumps({"parameters": [], **task}))
    sys.path[:], sys.argv[:] = path, argv
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def wheel(directory: Path, *, pure: bool = True, requires: str = "") -> str:
    """A wheel with a module, an entry point and a function that is none; returns its path in the workspace."""
    name = "mypack-1.0-py3-none-any.whl"
    with zipfile.ZipFile(directory / name, "w") as archive:
        archive.writestr("mypack/__init__.py", MODULE)
        archive.writestr("mypack/words.txt", "data")
        archive.writestr("mypack-1.0.dist-info/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: {str(pure).lower()}\n")
        archive.writestr("mypack-1.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: mypack\nVersion: 1.0\n{requires}\n")
        archive.writestr("mypack-1.0.dist-info/entry_points.txt", "[console_scripts]\nrun = mypack:main\n")
    return f"/{name}"


def python(source: str, **more: Any) -> dict[str, Any]:
    return {"kind": "python", "place": "dbfs", "path": "/dir/a.py", "source": source, **more}


def test_a_file_runs_as_a_script_would(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "dir").mkdir()
    (tmp_path / "dir" / "beside_it.py").write_text("WORD = 'found'\n")
    run(
        **python(
            "import sys, beside_it\nprint(__name__, __file__, sys.argv, beside_it.WORD, spark)", parameters=["1", "two words"]
        )
    )
    file = f"{tmp_path}/dir/a.py"
    assert capsys.readouterr().out == f"__main__ {file} ['{file}', '1', 'two words'] found spark\n"


def test_what_a_task_shows_is_printed_and_what_it_tells_its_run_goes_on(
    run: Run, publisher: Publisher, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = {VALUE_MIME: {"key": "rows", "value": 1}}

    def show() -> None:
        publisher.publish({"text/html": "<b>rich</b>", "text/plain": "rich\n"})
        publisher.publish({"text/plain": "50 %"}, update=True)
        publisher.publish(told)
        publisher.publish({"image/png": "...", "text/plain": "<Figure>"}, None, transient={})

    monkeypatch.setattr(sys, "shown_here", show, raising=False)
    run(**python("import sys; print('first'); sys.shown_here()"))
    assert capsys.readouterr().out == "first\nrich\n<Figure>\n"
    assert publisher.published == [told]


@pytest.mark.parametrize(
    ("source", "fails"), [("exit(0)", False), ("import sys; sys.exit()", False), ("raise SystemExit(3)", True)]
)
def test_an_exit_is_a_success_with_status_0_only(run: Run, source: str, fails: bool) -> None:
    if not fails:
        run(**python(source))
        return
    with pytest.raises(kernel_task.TaskFailed, match="3"):
        run(**python("raise SystemExit(3)"))


def test_an_error_has_the_files_own_traceback(run: Run) -> None:
    with pytest.raises(kernel_task.TaskFailed) as caught:
        run(**python("def f():\n    return 1 / 0\n\nf()\n"))
    shown = "".join(traceback.format_exception(type(caught.value.error), caught.value.error, caught.value.trace))
    assert "return 1 / 0" in shown and "ZeroDivisionError" in shown
    assert "runtime/node" not in shown


def test_a_file_that_is_no_python_fails_as_such(run: Run) -> None:
    with pytest.raises(kernel_task.TaskFailed) as caught:
        run(**python("def f(:\n"))
    assert isinstance(caught.value.error, SyntaxError)
    assert "def f(:" in caught.value.text


@pytest.mark.parametrize("entry", [("run", "main ['mypack', '--a=1']"), ("other", "other")])
def test_an_entry_point_or_a_function_of_a_wheel(
    run: Run, tmp_path: Path, context: Context, capsys: pytest.CaptureFixture[str], entry: tuple[str, str]
) -> None:
    run(kind="wheel", package="mypack", entry_point=entry[0], parameters=["--a=1"], wheels=[wheel(tmp_path)])
    assert capsys.readouterr().out.strip() == entry[1]
    (file,) = context.files
    assert file.endswith(".zip") and zipfile.ZipFile(file).read("mypack/words.txt") == b"data", "the workers get it as well"


@pytest.mark.parametrize(
    ("given", "says"),
    [({"pure": False}, "contains compiled code"), ({"requires": REQUIRES}, "requires surely-not-there,")],
)
def test_a_wheel_that_cannot_work_is_refused(run: Run, tmp_path: Path, given: dict[str, Any], says: str) -> None:
    with pytest.raises(kernel_task.TaskFailed, match=says):
        run(kind="wheel", package="mypack", entry_point="run", wheels=[wheel(tmp_path, **given)])


def test_a_missing_wheel_and_a_missing_entry_point(run: Run, tmp_path: Path) -> None:
    with pytest.raises(kernel_task.TaskFailed, match="cannot be used"):
        run(kind="wheel", package="mypack", entry_point="run", wheels=["/nowhere.whl"])
    with pytest.raises(kernel_task.TaskFailed) as caught:
        run(kind="wheel", package="mypack", entry_point="nothing", wheels=[wheel(tmp_path)])
    assert isinstance(caught.value.error, AttributeError)


def test_a_java_program_fails_with_what_it_threw(run: Run, tmp_path: Path) -> None:
    with pytest.raises(kernel_task.TaskFailed) as caught:
        run(**{"kind": "jar", "class": "Main", "parameters": ["x"]})
    assert type(caught.value.error).__name__ == "java.lang.IllegalStateException"
    assert caught.value.text == "at Main.main ('Main', ['x'])"


DBT = """
import json, os, pathlib, sys

def cli():
    profiles = pathlib.Path(os.environ["DBT_PROFILES_DIR"], "profiles.yml")
    output = json.loads(profiles.read_text())["shop"]["outputs"]["databricks"]
    names, mode = sorted(each.name for each in pathlib.Path().iterdir()), oct(profiles.stat().st_mode)[-3:]
    print("ran", sys.argv, names, output["token"], mode)
    pathlib.Path("target").mkdir(exist_ok=True)
    sys.exit(2 if "fail" in sys.argv else 0)
"""


@pytest.fixture
def workspace() -> Iterator[str]:
    """Something that answers."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_dbt_runs_on_a_copy_of_its_project(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], workspace: str
) -> None:
    monkeypatch.setenv("WORKSPACE_ROOT", str(tmp_path / "Workspace"))
    project = tmp_path / "Workspace" / "shop"
    project.mkdir(parents=True)
    task = {"kind": "dbt", "project": "/Workspace/shop", "profile": {"token": "t"}, "url": workspace}
    with pytest.raises(kernel_task.TaskFailed) as none:
        run(**task, commands=[["run"]])
    assert "dbt is not installed" in none.value.text
    (tmp_path / "site" / "dbt" / "cli").mkdir(parents=True)
    (tmp_path / "site" / "dbt" / "cli" / "main.py").write_text(DBT)
    sys.path.append(str(tmp_path / "site"))
    importlib.invalidate_caches()
    with pytest.raises(kernel_task.TaskFailed) as missing:
        run(**task, commands=[["run"]])
    assert "There is no dbt_project.yml" in missing.value.text
    (project / "dbt_project.yml").write_text("name: x\nprofile: 'shop'  # any\n")
    with pytest.raises(kernel_task.TaskFailed) as failed:
        run(**task, commands=[["run", "--select", "a b"], ["fail"], ["never"]])
    assert "dbt fail has failed with exit status 2" in failed.value.text
    first, second = (line for line in capsys.readouterr().out.splitlines() if line.startswith("ran"))
    assert first == "ran ['dbt', 'run', '--select', 'a b'] ['dbt_project.yml'] t 600"
    assert "target" in second, "commands share the copy"
    assert [each.name for each in project.iterdir()] == ["dbt_project.yml"]
    with pytest.raises(kernel_task.TaskFailed) as away:
        run(**{**task, "url": "http://127.0.0.1:1"}, commands=[["run"]])
    assert "network_allow" in away.value.text
    own = {"kind": "dbt", "project": "/Workspace/shop"}
    with pytest.raises(kernel_task.TaskFailed) as lacking:
        run(**own, profiles="conf", commands=[["run"]])
    assert "profiles.yml" in lacking.value.text
    (project / "conf").mkdir()
    (project / "conf" / "profiles.yml").write_text(json.dumps({"shop": {"outputs": {"databricks": {"token": "own"}}}}))
    run(**own, profiles="conf", commands=[["run"]])
    assert " own " in capsys.readouterr().out, "the project's profile, and no address of the workspace"
