"""The page of files: browse, upload, preview, download, delete."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.service.catalog import VolumeType
from databricks.sdk.service.workspace import ImportFormat
from playwright.sync_api import expect

from tests.ui.axe import HOSTILE, readable
from tests.ui.conftest import Session

VOLUME = "/Volumes/main/default/pictures"
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
)
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>document.title="taken over"</script></svg>'


@pytest.fixture(scope="module")
def volume(w: WorkspaceClient) -> Iterator[str]:
    """A volume with files of each kind."""
    w.volumes.create("main", "default", "pictures", VolumeType.MANAGED)
    contents = {
        "people.csv": b'name,said\nAda,"a, b"\n' + f"{HOSTILE},x\n".encode(),
        "x.svg": SVG,
        "page.html": HOSTILE.encode(),
        "dot.png": PNG,
        "data.json": b'{"a": [1, 2]}',
        "empty.txt": b"",
    }
    for name, content in contents.items():
        w.files.upload(f"{VOLUME}/{name}", io.BytesIO(content))
    yield VOLUME
    w.volumes.delete("main.default.pictures")


def test_a_file_is_uploaded_and_used_in_a_cluster(session: Session, volume: str, w: WorkspaceClient, tmp_path: Path) -> None:
    page = session.go("/compute")
    page.get_by_role("link", name="Files", exact=True).click()
    for name in ("Volumes", "main/", "default/", "pictures/"):
        page.get_by_role("link", name=name, exact=True).first.click()
    large = tmp_path / "large.bin"
    large.write_bytes(bytes(range(256)) * 4096 * 9)  # more than one part
    page.get_by_label("Files to upload").set_input_files([large])
    expect(page.get_by_label("Uploads")).to_contain_text("Uploaded")
    expect(page.get_by_role("button", name="large.bin", exact=True)).to_be_visible()
    found = w.files.download(f"{volume}/large.bin").contents
    assert found is not None and found.read() == large.read_bytes()
    page.get_by_role("button", name="people.csv", exact=True).click()
    preview = page.get_by_label("people.csv", exact=True)
    expect(preview.get_by_role("cell", name="a, b")).to_be_visible()
    expect(preview.locator(".usage")).to_contain_text(f'spark.read.csv("{volume}/people.csv"')
    with page.expect_download() as given:
        preview.get_by_role("link", name="Download").click()
    assert given.value.path().read_bytes().startswith(b"name,said")
    page.get_by_role("button", name="Delete large.bin").click()
    page.get_by_role("dialog", name="Delete large.bin?").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("button", name="large.bin", exact=True)).to_have_count(0)
    assert session.said == []


def test_nothing_in_a_file_runs(session: Session, volume: str) -> None:
    for name in ("x.svg", "page.html", "people.csv", "data.json", "dot.png", "empty.txt"):
        page = session.go(f"/files?path={volume}&open={name}")
        expect(page.get_by_label(name, exact=True)).to_be_visible()
        expect(page.locator(".preview [aria-busy=true]")).to_have_count(0)
    page = session.go(f"/files?path={volume}&open=dot.png")
    expect(page.get_by_role("img", name="dot.png")).to_be_visible()
    page = session.go(f"/files?path={volume}&open=x.svg")
    expect(page.get_by_label("Beginning of the file")).to_contain_text("<script>")
    assert page.title() != "taken over"
    assert session.said == []


def test_dbfs_and_the_workspace(session: Session, w: WorkspaceClient, tmp_path: Path) -> None:
    w.dbfs.mkdirs("/below/deep")
    w.workspace.upload("/Shared/helpers.py", b"def one():\n    return 1\n", format=ImportFormat.AUTO, overwrite=True)
    page = session.go("/files?path=/dbfs/below")
    small = tmp_path / "notes.txt"
    small.write_text("kept\n" * 200_000)
    page.get_by_label("Files to upload").set_input_files([small])
    page.get_by_role("button", name="notes.txt", exact=True).click()
    expect(page.get_by_label("Beginning of the file")).to_contain_text("kept")
    with page.expect_download() as given:
        page.get_by_role("button", name="Download").click()
    assert given.value.path().read_text() == small.read_text()
    page.get_by_role("button", name="Create a directory").click()
    page.get_by_role("dialog").get_by_role("textbox").fill("made")
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("link", name="made/")).to_be_visible()
    readable(page)
    page.get_by_role("button", name="Delete made").click()
    page.get_by_role("dialog", name="Delete made?").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("link", name="made/")).to_have_count(0)
    page = session.go("/files?path=/Workspace/Shared&open=helpers.py")
    expect(page.get_by_label("Beginning of the file")).to_contain_text("def one")
    w.dbfs.delete("/below", recursive=True)
    assert session.said == []


def test_a_path_that_is_not_there_says_so(session: Session) -> None:
    page = session.go("/files?path=/Volumes/main/default/nowhere")
    expect(page.get_by_role("alert")).to_be_visible()
    page = session.go("/files?path=/etc/passwd")
    expect(page.get_by_role("link", name="DBFS")).to_be_visible()
