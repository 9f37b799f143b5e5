"""Imports that say what they replace, and the earlier contents of notebooks."""

from __future__ import annotations

import base64
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from brickyard.features.files.notebooks import Language
from brickyard.features.files.versions import MOST, MOST_BYTES, SITTING_MS, Kept, Version, is_wanted, surplus
from tests.features.files.conftest import Files
from tests.support.edge import USER

HOME = f"/Users/{USER.user_name}"
PATH = f"{HOME}/n"
HEADER = "# Databricks notebook source\n"
AGREED = 8  # writers at once


@pytest.fixture(autouse=True)
def home(files: Files) -> Iterator[None]:
    files.client.workspace.get_status(HOME)
    yield


def save(files: Files, text: str, **more: Any) -> dict[str, Any]:
    body = {"path": PATH, "content": base64.b64encode(text.encode()).decode(), "language": "PYTHON", "overwrite": True} | more
    answer = files.call("POST", "2.0/workspace/import", json=body)
    return {**answer.json(), "status": answer.status_code}


def export(files: Files, path: str = PATH) -> tuple[str, str]:
    """Content and etag."""
    found = files.call("GET", "2.0/workspace/export", params={"path": path}).json()
    return base64.b64decode(found["content"]).decode(), found["etag"]


def versions(files: Files, path: str = PATH) -> list[dict[str, Any]]:
    answer = files.call("GET", "2.1/workspace/versions/list", params={"path": path})
    assert answer.status_code == 200, answer.text
    return list(answer.json().get("versions", []))


def contents(files: Files) -> list[str]:
    """Of the versions, newest first, without the header."""
    found = []
    for each in versions(files):
        query = {"path": PATH, "version_id": each["version_id"]}
        answer = files.call("GET", "2.1/workspace/versions/export", params=query).json()
        found.append(base64.b64decode(answer["content"]).decode().removeprefix(HEADER))
    return found


def test_an_import_can_say_what_it_replaces(files: Files) -> None:
    made = save(files, "one")
    content, etag = export(files)
    assert (content, etag) == (f"{HEADER}one", made["etag"])
    second = save(files, "two", expected_etag=etag)
    assert second["status"] == 200 and second["etag"] not in ("", etag)
    late = save(files, "three", expected_etag=etag)
    assert (late["status"], late["error_code"]) == (409, "ABORTED")
    assert export(files) == (f"{HEADER}two", second["etag"])
    # An editor that got no answer repeats its call.
    assert save(files, "two", expected_etag=etag)["etag"] == second["etag"]
    # What a program on a node writes counts as well.
    (files.workspace / "Users" / USER.user_name / "n").write_text(f"{HEADER}from a node")
    assert save(files, "four", expected_etag=second["etag"])["error_code"] == "ABORTED"
    assert export(files)[0] == f"{HEADER}from a node"


def test_what_an_import_cannot_replace_is_refused(files: Files) -> None:
    assert save(files, "x", expected_etag="0" * 32)["error_code"] == "RESOURCE_DOES_NOT_EXIST"
    etag = save(files, "x")["etag"]
    assert save(files, "y", overwrite=False, expected_etag=etag)["error_code"] == "INVALID_PARAMETER_VALUE"
    file = f"{HOME}/f"
    files.call("POST", "2.0/workspace/import", json={"path": file, "content": "eA==", "format": "RAW"})
    assert save(files, "y", path=file, expected_etag=etag)["error_code"] == "ABORTED"
    assert "etag" not in files.call("GET", "2.0/workspace/export", params={"path": file}).json()
    assert files.refused("GET", "2.1/workspace/versions/list", params={"path": file})[1] == "INVALID_PARAMETER_VALUE"
    missing = {"path": PATH, "version_id": "../../../secrets"}
    assert files.refused("GET", "2.1/workspace/versions/export", params=missing)[:2] == (404, "RESOURCE_DOES_NOT_EXIST")


def test_of_many_who_replace_the_same_content_one_succeeds(files: Files) -> None:
    etag = save(files, "begin")["etag"]
    ready = threading.Barrier(AGREED)

    def write(number: int) -> int:
        ready.wait()
        return int(save(files, f"by {number}", expected_etag=etag)["status"])

    with ThreadPoolExecutor(AGREED) as pool:
        statuses = list(pool.map(write, range(AGREED)))
    assert sorted(statuses) == [200] + [409] * (AGREED - 1)
    assert export(files)[0] == f"{HEADER}by {statuses.index(200)}"


def test_what_is_replaced_is_kept_once_in_a_sitting(files: Files) -> None:
    save(files, "one")
    for text in ("two", "two", "three", "four"):
        save(files, text)
    assert contents(files) == ["one"]
    files.clock.advance(ms=SITTING_MS)
    save(files, "five")
    assert contents(files) == ["four", "one"]
    (newest, _) = versions(files)
    assert newest["saved_by"] == USER.user_name and newest["size"] == len(f"{HEADER}four")
    # What somebody else wrote is kept whenever it is replaced, also by a program that leaves the label of the file as it is.
    place = files.workspace / "Users" / USER.user_name / "n"
    place.write_text(f"{HEADER}from a node")
    os.utime(place, (2e9, 2e9))
    save(files, "six")
    assert contents(files)[0] == "from a node" and "saved_by" not in versions(files)[0]


def test_versions_go_with_their_notebook(files: Files) -> None:
    save(files, "one")
    save(files, "two")
    assert len(versions(files)) == 1
    files.client.workspace.delete(PATH)
    assert files.refused("GET", "2.1/workspace/versions/list", params={"path": PATH})[0] == 404
    save(files, "of somebody else")
    assert versions(files) == []
    # A program on a node deletes it: the next notebook of the path is another one.
    save(files, "changed")
    assert len(versions(files)) == 1
    place = files.workspace / "Users" / USER.user_name / "n"
    place.unlink()
    place.write_text(f"{HEADER}another notebook")
    assert versions(files) == []


def test_a_notebook_that_came_from_jupyter_stays_one_when_it_is_edited(files: Files) -> None:
    cells = '{"cells": [{"cell_type": "code", "source": "1"}], "metadata": {}, "nbformat": 4}'
    save(files, cells, format="JUPYTER")
    status = {"path": PATH, "return_export_info": True}

    def kind() -> Any:
        return files.call("GET", "2.0/workspace/get-status", params=status).json()["repos_export_format"]

    assert kind() == "JUPYTER"
    save(files, "2", expected_etag=export(files)[1])
    assert kind() == "JUPYTER"
    save(files, "3")
    assert kind() == "SOURCE"


def version(saved_ms: int, *, by: str = "ada", kept_ms: int = 0, size: int = 10, created_ms: int = 1) -> Kept:
    made = Version(
        saved_ms=saved_ms, saved_by=by, kept_ms=kept_ms or saved_ms, created_ms=created_ms, language=Language.PYTHON, size=size
    )
    return Kept(f"{saved_ms:013d}-0", made)


def test_which_versions_are_kept() -> None:
    kept = [version(1000)]
    assert is_wanted([], version(5).version, "ada")
    assert not is_wanted(kept, version(1001).version, "ada")
    assert is_wanted(kept, version(1001).version, "grace")
    assert is_wanted(kept, version(1001, by="").version, "ada")
    assert is_wanted(kept, version(1000 + SITTING_MS).version, "ada")
    assert is_wanted(kept, version(900).version, "ada"), "a clock that was set back must not end the history"


def test_versions_are_bounded() -> None:
    many = [version(at) for at in range(1, MOST + 3)]
    assert [each.version.saved_ms for each in surplus(many, 1)] == [2, 1]
    large = [version(at, size=MOST_BYTES + 1) for at in (1, 2, 3)]
    assert [each.version.saved_ms for each in surplus(large, 1)] == [2, 1]
    mixed = [version(1), version(2, created_ms=7)]
    assert [each.version.saved_ms for each in surplus(mixed, 1)] == [2]
