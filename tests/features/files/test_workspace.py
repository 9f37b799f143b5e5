"""Notebooks and workspace files, as the SDK, the CLI and plain HTTP use them."""

from __future__ import annotations

import base64
import errno
import io
import json
import os
import time
from urllib.parse import quote

import pytest
from databricks.sdk.errors import NotFound
from databricks.sdk.errors.base import DatabricksError
from databricks.sdk.service.workspace import ExportFormat, ImportFormat, Language, ObjectType

from brickyard.features.files.formats import MAX_NOTEBOOK
from tests.features.files.conftest import Files
from tests.support.edge import USER
from tests.support.golden import Golden
from tests.support.trees import deep

HOME = f"/Users/{USER.user_name}"
NOTEBOOK = b"# Databricks notebook source\nprint(1)\n"


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.fixture(autouse=True)
def home(files: Files) -> None:
    assert files.client.workspace.get_status(HOME).object_type is ObjectType.DIRECTORY


def test_everybody_has_a_home_and_a_shared_directory(files: Files, golden: Golden) -> None:
    listed = {each.path: each.object_type for each in files.client.workspace.list("/")}
    assert listed == {"/Shared": ObjectType.DIRECTORY, "/Users": ObjectType.DIRECTORY}
    for path in ("/", "/Users", "/Workspace", "/Workspace/Users"):
        golden(files.refused("POST", "2.0/workspace/delete", json={"path": path})[2])
    golden(files.refused("POST", "2.0/workspace/delete", json={"path": "/Shared"})[2])


@pytest.mark.parametrize(
    ("language", "comment"), [(Language.PYTHON, "#"), (Language.SQL, "--"), (Language.SCALA, "//"), (Language.R, "#")]
)
def test_a_notebook_is_kept_with_its_language(files: Files, language: Language, comment: str) -> None:
    workspace, path = files.client.workspace, f"{HOME}/notebook"
    workspace.import_(path, content=b64(b"one"), language=language)
    found = workspace.get_status(path)
    assert (found.object_type, found.language, found.size) == (ObjectType.NOTEBOOK, language, None)
    assert workspace.export(path).content == b64(f"{comment} Databricks notebook source\none".encode())
    assert (files.workspace / "Users" / USER.user_name / "notebook").read_bytes().startswith(f"{comment} Databricks".encode())
    again = workspace.download(path).read()
    workspace.upload(path, io.BytesIO(again), language=language, overwrite=True)
    assert workspace.download(path).read() == again
    assert workspace.get_status(path).object_id == found.object_id
    assert [(each.path, each.language) for each in workspace.list(HOME)] == [(path, language)]


def test_files_of_the_sdk(files: Files, golden: Golden) -> None:
    workspace, data = files.client.workspace, os.urandom(MAX_NOTEBOOK + 1)
    workspace.mkdirs(f"{HOME}/a/b")
    workspace.upload(f"{HOME}/a/b/big.bin", io.BytesIO(data), format=ImportFormat.AUTO)
    found = workspace.get_status(f"{HOME}/a/b/big.bin")
    assert (found.object_type, found.size, found.resource_id) == (ObjectType.FILE, len(data), str(found.object_id))
    assert workspace.download(f"{HOME}/a/b/big.bin").read() == data
    with pytest.raises(DatabricksError, match="direct_download"):
        workspace.export(f"{HOME}/a/b/big.bin")
    assert [each.path for each in workspace.list(HOME, recursive=True)] == [f"{HOME}/a/b/big.bin"]
    workspace.upload(f"{HOME}/a/small", b"x", format=ImportFormat.RAW)
    assert workspace.export(f"{HOME}/a/small", format=ExportFormat.AUTO).content == b64(b"x")
    with golden.refused(DatabricksError) as error:
        workspace.upload(f"{HOME}/a/small", b"y", format=ImportFormat.RAW)
    assert error.value.error_code == "RESOURCE_ALREADY_EXISTS"
    with golden.refused(DatabricksError) as error:
        workspace.delete(f"{HOME}/a")
    assert error.value.error_code == "DIRECTORY_NOT_EMPTY"
    workspace.delete(f"{HOME}/a", recursive=True)
    with pytest.raises(NotFound):
        workspace.get_status(f"{HOME}/a")
    with pytest.raises(NotFound):
        list(workspace.list(f"{HOME}/a"))
    assert files.waiting() == []


def test_format_auto_tells_notebooks_from_files(files: Files, golden: Golden) -> None:
    workspace = files.client.workspace
    for name, content in (("nb.py", NOTEBOOK), ("plain.py", b"print(1)"), ("notes.txt", NOTEBOOK), ("q.sql", NOTEBOOK)):
        workspace.upload(f"{HOME}/{name}", io.BytesIO(content), format=ImportFormat.AUTO)
    found = {each.path: each.language for each in workspace.list(HOME)}
    # A file that begins as a notebook does is one, whatever its name.
    expected = {"nb": Language.PYTHON, "plain.py": None, "notes.txt": Language.PYTHON, "q.sql": Language.PYTHON}
    assert found == {f"{HOME}/{name}": language for name, language in expected.items()}
    with golden.refused(DatabricksError):
        workspace.upload(f"{HOME}/file.txt", io.BytesIO(b"text"))


def test_jupyter_there_and_back(files: Files, golden: Golden) -> None:
    workspace, path = files.client.workspace, f"{HOME}/deep learning"
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": ["# Title\n", "\n", "text"]},
        {"cell_type": "code", "metadata": {}, "source": "x = 1\n\ny = 2", "outputs": [{"output_type": "stream"}]},
        {"cell_type": "code", "metadata": {}, "source": ["%sql\n", "SELECT 1"], "outputs": []},
    ]
    notebook = json.dumps({"cells": cells, "metadata": {"language_info": {"name": "python"}}, "nbformat": 4, "nbformat_minor": 4})
    workspace.upload(f"{path}.ipynb", io.BytesIO(notebook.encode()), format=ImportFormat.AUTO)
    assert workspace.download(path).read().decode() == (
        "# Databricks notebook source\n# MAGIC %md\n# MAGIC # Title\n# MAGIC\n# MAGIC text\n\n# COMMAND ----------\n\n"
        "x = 1\n\ny = 2\n\n# COMMAND ----------\n\n# MAGIC %sql\n# MAGIC SELECT 1\n"
    )
    back = json.loads(workspace.download(path, format=ExportFormat.JUPYTER).read())
    assert [(cell["cell_type"], "".join(cell["source"])) for cell in back["cells"]] == [
        ("markdown", "# Title\n\ntext"), ("code", "x = 1\n\ny = 2"), ("code", "%sql\nSELECT 1")
    ]  # fmt: skip
    assert (back["nbformat"], back["metadata"]["language_info"]) == (4, {"name": "python"})
    with golden.refused(DatabricksError):
        workspace.import_(f"{HOME}/broken", content=b64(b"{}"), format=ImportFormat.JUPYTER)
    workspace.upload(f"{HOME}/broken.ipynb", b"{}", format=ImportFormat.AUTO)
    assert workspace.get_status(f"{HOME}/broken.ipynb").object_type is ObjectType.FILE


def test_an_import_answers_the_id(files: Files) -> None:
    """Terraform takes the id of a notebook from there."""
    answers = [
        files.call("POST", "2.0/workspace/import", json={"path": f"{HOME}/a", "content": b64(b"x"), "language": "SQL"}),
        files.call("POST", "2.0/workspace/import", data={"path": f"{HOME}/b", "format": "AUTO"}, files={"content": NOTEBOOK}),
        files.call("POST", f"2.0/workspace-files/import-file{HOME}/c.py?overwrite=false", data=NOTEBOOK),
    ]
    ids = [files.client.workspace.get_status(f"{HOME}/{name}").object_id for name in ("a", "b", "c")]
    assert [answer.json()["object_id"] for answer in answers] == ids
    assert files.client.permissions.get("notebooks", str(ids[2])).object_id == f"/notebooks/{ids[2]}"


def test_format_raw_makes_a_file_whatever_it_begins_with(files: Files) -> None:
    workspace, path = files.client.workspace, f"{HOME}/exported.py"
    workspace.upload(path, NOTEBOOK, format=ImportFormat.RAW)
    for _ in range(2):
        found = workspace.get_status(path)
        assert (found.object_type, found.language, found.size) == (ObjectType.FILE, None, len(NOTEBOOK))
        assert [each.object_type for each in workspace.list(HOME)] == [ObjectType.FILE]
        assert workspace.download(path).read() == NOTEBOOK
        assert files.call("GET", f"2.0/workspace-files{path}").content == NOTEBOOK
        os.utime(files.workspace / "Users" / USER.user_name / "exported.py")
    workspace.upload(path, NOTEBOOK, format=ImportFormat.SOURCE, language=Language.PYTHON, overwrite=True)
    assert workspace.get_status(path).object_type is ObjectType.NOTEBOOK


def test_a_file_that_cannot_be_marked_is_refused(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(errno.ENOTSUP, "not supported")

    monkeypatch.setattr(os, "setxattr", unsupported)
    body = {"path": f"{HOME}/x", "content": b64(NOTEBOOK), "format": "RAW"}
    assert "extended attributes" in files.refused("POST", "2.0/workspace/import", json=body)[2]
    for name, content in (("f", b"plain"), ("nb.ipynb", b'{"cells": [], "nbformat": 4}')):
        files.client.workspace.upload(f"{HOME}/{name}", content, format=ImportFormat.AUTO)
    found = {each.path: each.object_type for each in files.client.workspace.list(HOME)}
    assert found == {f"{HOME}/f": ObjectType.FILE, f"{HOME}/nb": ObjectType.NOTEBOOK}


def test_when_something_was_made(files: Files) -> None:
    workspace, path = files.client.workspace, f"{HOME}/dir/f"
    workspace.mkdirs(f"{HOME}/dir")
    workspace.upload(path, b"1", format=ImportFormat.RAW)
    before = {each: workspace.get_status(each).created_at for each in (path, f"{HOME}/dir", "/")}
    now = time.time() * 1000
    assert all(now - 60_000 < created <= now for created in before.values() if created is not None)
    time.sleep(0.05)
    workspace.upload(path, b"2", format=ImportFormat.RAW, overwrite=True)
    after = workspace.get_status(path)
    assert after.created_at == before[path] and (after.modified_at or 0) > (after.created_at or 0)
    assert [each.created_at for each in workspace.list(f"{HOME}/dir")] == [after.created_at]
    assert workspace.get_status(f"{HOME}/dir").created_at == before[f"{HOME}/dir"]  # its own last change is later
    os.setxattr(files.workspace / "Users" / USER.user_name / "dir" / "f", "user.brickyard", b'{"created_ms": 99999999999999}')
    assert (workspace.get_status(path).created_at or 0) <= (after.modified_at or 0)
    os.setxattr(files.workspace / "Users" / USER.user_name / "dir" / "f", "user.brickyard", b"\xff")
    assert workspace.get_status(path).object_type is ObjectType.FILE


def test_the_format_in_which_a_notebook_came(files: Files) -> None:
    notebook = json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 4}).encode()
    files.client.workspace.upload(f"{HOME}/j.ipynb", notebook, format=ImportFormat.AUTO)
    files.client.workspace.upload(f"{HOME}/s.py", NOTEBOOK, format=ImportFormat.AUTO)

    def export_format(path: str) -> str:
        query = {"path": path, "return_export_info": "true"}
        return str(files.call("GET", "2.0/workspace/get-status", params=query).json()["repos_export_format"])

    assert (export_format(f"{HOME}/j"), export_format(f"{HOME}/s")) == ("JUPYTER", "SOURCE")
    files.client.workspace.upload(f"{HOME}/j.py", NOTEBOOK, format=ImportFormat.AUTO, overwrite=True)
    assert export_format(f"{HOME}/j") == "SOURCE"


def test_the_root_has_the_id_0(files: Files) -> None:
    root = files.client.workspace.get_status("/")
    assert (root.object_id, root.resource_id, root.path) == (0, "0", "/")
    levels = files.client.permissions.get("directories", "0")
    assert (levels.object_id, levels.object_type) == ("/directories/0", "directory")


def test_words_of_a_missing_path(files: Files) -> None:
    for path in (f"{HOME}/none", f"/Workspace{HOME}/none"):
        for call in ("get-status", "list", "export"):
            said = files.refused("GET", f"2.0/workspace/{call}", params={"path": path})
            assert said == (404, "RESOURCE_DOES_NOT_EXIST", f"Path ({path}) doesn't exist.")


@pytest.mark.parametrize("format", ["DBC", "HTML", "R_MARKDOWN", "PDF"])
def test_other_formats_are_refused(files: Files, format: str) -> None:
    body = {"path": f"{HOME}/nb", "content": b64(b"x"), "format": format, "language": "PYTHON"}
    assert files.refused("POST", "2.0/workspace/import", json=body)[:2] == (400, "INVALID_PARAMETER_VALUE")
    form = {"path": f"{HOME}/nb", "format": format, "language": "PYTHON"}
    assert files.refused("POST", "2.0/workspace/import", data=form, files={"content": b"x"})[:2] == (
        400,
        "INVALID_PARAMETER_VALUE",
    )
    files.client.workspace.upload(f"{HOME}/nb", NOTEBOOK, language=Language.PYTHON)
    query = {"path": f"{HOME}/nb", "format": format}
    assert files.refused("GET", "2.0/workspace/export", params=query)[:2] == (400, "INVALID_PARAMETER_VALUE")


@pytest.mark.parametrize("top", ["", "/Workspace"])
@pytest.mark.parametrize("escaped", [True, False])
def test_what_the_cli_and_bundles_call(files: Files, top: str, escaped: bool, golden: Golden) -> None:
    """databricks-cli: libs/filer/workspace_files_client.go, as used by `sync`, `bundle deploy` and `workspace import-dir`."""

    def import_file(path: str, **query: str) -> str:
        url = f"2.0/workspace-files/import-file/{quote(f'{top}{path}'.lstrip('/'), safe='' if escaped else '/')}"
        return url + "".join(f"?{name}={value}" for name, value in query.items())

    status, code, message = files.refused("POST", import_file(f"{HOME}/app/nb.py", overwrite="false"), data=NOTEBOOK)
    assert (status, code) == (404, "RESOURCE_DOES_NOT_EXIST")
    golden(message)
    assert files.call("POST", "2.0/workspace/mkdirs", json={"path": f"{top}{HOME}/app"}).ok
    for name, content in (("nb.py", NOTEBOOK), ("with space.txt", b"text")):
        assert files.call("POST", import_file(f"{HOME}/app/{name}", overwrite="false"), data=content).status_code == 200
        refused = files.refused("POST", import_file(f"{HOME}/app/{name}", overwrite="false"), data=content)
        assert refused[:2] == (409, "ALREADY_EXISTS")
        assert files.call("POST", import_file(f"{HOME}/app/{name}", overwrite="true"), data=content).status_code == 200
    query = {"path": f"{top}{HOME}/app/nb", "return_export_info": "true"}
    found = files.call("GET", "2.0/workspace/get-status", params=query).json()
    assert (found["object_type"], found["path"], found["repos_export_format"]) == ("NOTEBOOK", query["path"], "SOURCE")
    read = files.call("GET", f"2.0/workspace-files{quote(f'{top}{HOME}/app/with space.txt')}")
    assert (read.content, read.headers["Content-Length"]) == (b"text", "4")
    listed = files.call("GET", "2.0/workspace/list", params={"path": f"{top}{HOME}/app/with space.txt"}).json()
    assert [each["path"] for each in listed["objects"]] == [f"{top}{HOME}/app/with space.txt"]
    assert files.refused("POST", "2.0/workspace/mkdirs", json={"path": f"{top}{HOME}/app/nb"})[1] == "RESOURCE_ALREADY_EXISTS"


def test_notebooks_are_listed_by_their_age(files: Files) -> None:
    files.client.workspace.upload(f"{HOME}/nb", NOTEBOOK, language=Language.PYTHON)
    os.utime(files.workspace / "Users" / USER.user_name / "nb", (1000, 1000))
    assert len(list(files.client.workspace.list(HOME, notebooks_modified_after=1_000_000))) == 1
    assert len(list(files.client.workspace.list(HOME, notebooks_modified_after=1_000_001))) == 0


@pytest.mark.parametrize("path", ["", "x", "/../x", "/Users/../../x", "/Workspace/../x", "/a\0b", "dbfs:/x", "/" + "x" * 256])
def test_paths_that_are_refused(files: Files, path: str) -> None:
    for method, call in (("POST", "mkdirs"), ("POST", "delete"), ("POST", "import"), ("GET", "export"), ("GET", "get-status")):
        options = {"params": {"path": path}} if method == "GET" else {"json": {"path": path, "language": "PYTHON"}}
        assert files.refused(method, f"2.0/workspace/{call}", **options)[0] == 400, call
    assert [entry.name for entry in files.outside.iterdir()] == ["secret"]


def test_links_are_not_followed_and_deep_trees_removed(files: Files) -> None:
    shared = files.workspace / "Shared"
    (shared / "dir").symlink_to(files.outside)
    (shared / "file").symlink_to(files.outside / "secret")
    deep(shared / "deep")
    workspace = files.client.workspace
    for path in ("/Shared/file", "/Shared/dir/secret"):
        for attempt in (workspace.get_status, workspace.download, workspace.delete):
            with pytest.raises(NotFound):
                attempt(path)
    with pytest.raises(DatabricksError):
        workspace.upload("/Shared/dir/new", b"x", format=ImportFormat.RAW)
    assert [each.path for each in workspace.list("/Shared")] == ["/Shared/deep"]
    workspace.delete("/Shared/deep", recursive=True)
    assert [entry.name for entry in files.outside.iterdir()] == ["secret"]


def test_content_that_is_no_notebook_is_refused(files: Files, golden: Golden) -> None:
    status = files.refused("POST", "2.0/workspace/import", json={"path": f"{HOME}/nb", "content": "%%", "language": "PYTHON"})
    assert "not valid base64" in status[2]
    not_text = {"path": f"{HOME}/nb", "content": b64(b"\xff"), "language": "PYTHON"}
    golden(files.refused("POST", "2.0/workspace/import", json=not_text)[2])
    large = {"path": f"{HOME}/nb", "language": "PYTHON"}
    refused = files.refused("POST", "2.0/workspace/import", data=large, files={"content": b"x" * (MAX_NOTEBOOK + 1)})
    assert refused[:2] == (400, "MAX_NOTEBOOK_SIZE_EXCEEDED")
    assert list((files.workspace / "Users" / USER.user_name).iterdir()) == []


def test_a_full_disk_takes_nothing_and_everything_else_works(files: Files) -> None:
    files.client.workspace.upload(f"{HOME}/nb", NOTEBOOK, language=Language.PYTHON)
    files.room.why = "The workspace's disk is full."
    body = {"path": f"{HOME}/new", "content": b64(b"x"), "language": "PYTHON"}
    for method, path, options in (
        ("POST", "workspace/import", {"json": body}),
        ("POST", "workspace/mkdirs", {"json": body}),
        ("POST", f"workspace-files/import-file{HOME}/new", {"data": b"x"}),
    ):
        assert files.refused(method, f"2.0/{path}", **options)[:2] == (507, "RESOURCE_EXHAUSTED")
    assert files.client.workspace.download(f"{HOME}/nb").read() == NOTEBOOK
    files.client.workspace.delete(f"{HOME}/nb")
