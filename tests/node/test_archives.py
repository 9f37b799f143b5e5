"""Class-data archives and AOT caches: which a JVM gets, how they are made, and what Java says of those that do not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from brickyard.runtime.node.jvm import archives, launch
from brickyard.runtime.node.jvm.launch import JvmOptions
from brickyard.runtime.node.training.recording import recording_of

MANIFEST: Any = {"java_home": "/j", "java_version": "25.0.2", "node_archive": "/node.aot", "worker_archive": "/worker.aot"}


@pytest.mark.parametrize(
    ("version", "major", "suffix"),
    [("1.8.0", 8, ".jsa"), ("17.0.15", 17, ".jsa"), ("21", 21, ".jsa"), ("25.0.2", 25, ".aot"), ("", 17, ".jsa")],
)
def test_java_25_keeps_caches(version: str, major: int, suffix: str) -> None:
    assert archives.major(version) == major
    assert archives.suffix(version) == suffix


def test_an_archive_and_a_cache_have_flags_of_their_own() -> None:
    assert "-XX:SharedArchiveFile=/a.jsa" in archives.archive_flags("/a.jsa")
    cache = archives.archive_flags("/a.aot")
    assert "-XX:AOTCache=/a.aot" in cache
    assert "-XX:-AOTReplayTraining" in cache
    assert not any("SharedArchiveFile" in flag for flag in cache), "Java refuses both together"


@pytest.mark.parametrize(
    ("options", "archive"),
    [
        ({}, "/node.aot"),
        ({"worker": True}, "/worker.aot"),
        ({"frugal": True}, "/node.aot"),
        ({"class_path": ("/mine.jar",)}, ""),
        ({"java_options": ("-XX:SharedArchiveFile=/mine",)}, ""),
        ({"java_options": ("-XX:AOTCache=/mine",)}, ""),
    ],
)
def test_each_jvm_gets_what_suits_it(options: dict[str, Any], archive: str) -> None:
    assert launch.archive_of(MANIFEST, JvmOptions(heap_mb=1000, **options)) == archive


def test_a_worker_of_java_17_shares_the_archive_of_drivers() -> None:
    manifest: Any = {"node_archive": "/node.jsa", "worker_archive": ""}
    assert launch.archive_of(manifest, JvmOptions(heap_mb=512, worker=True)) == "/node.jsa"


def test_a_cache_is_made_with_the_options_of_the_jvm_that_recorded(tmp_path: Path) -> None:
    recording = recording_of(MANIFEST, tmp_path)
    assert recording.jvms == ("node", "worker")
    ran = ["/real/java", "-Xmx1g", *recording.flags("executor", 0), "--add-opens=a=b", "-cp", "/jars/*", "Main", "--url", "x"]
    made = recording.command("executor", ran, tmp_path / "e.aot")
    assert made == [
        "/real/java", "-Xmx1g", "--add-opens=a=b", "-XX:AOTMode=create", f"-XX:AOTConfiguration={tmp_path}/executor.record",
        f"-XX:AOTCache={tmp_path}/e.aot", "-cp", "/jars/*",
    ]  # fmt: skip


def test_executors_do_not_overwrite_one_anothers_records(tmp_path: Path) -> None:
    for version in ("17.0.1", "25.0.2"):
        manifest: Any = {**MANIFEST, "java_version": version}
        flags = recording_of(manifest, tmp_path).flags("executor", "{{EXECUTOR_ID}}")
        assert flags[-1].endswith("executor{{EXECUTOR_ID}}.record"), "Spark puts the executor's number there"


def test_an_archive_of_java_17_is_made_from_a_list(tmp_path: Path) -> None:
    manifest: Any = {**MANIFEST, "java_version": "17.0.1"}
    recording = recording_of(manifest, tmp_path)
    assert recording.jvms == ("node",)
    assert recording.flags("node") == [f"-XX:DumpLoadedClassList={tmp_path}/node.record"]
    made = recording.command("node", ["/real/java", "-Xmx1g", "-cp", "/jars/*", "Main"], tmp_path / "n.jsa")
    assert f"-XX:SharedArchiveFile={tmp_path}/n.jsa" in made
    assert made[-2:] == ["-cp", "/jars/*"]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("", ""),
        ("an ordinary line\n[a][b] of a program\n", ""),
        ("[0.012s][warning][cds] shared class paths mismatch\n", "shared class paths mismatch"),
        ("x\n[0.01s][warning][aot] It was truncated.\n[0.02s][error  ][aot] An error has occurred\n", "It was truncated."),
        ("[0.012s][error  ][aot] An error has occurred\n", "An error has occurred"),
        ("[0.07s][warning][aot                ] Failed to link AdapterHandlerEntry (fp=LLI) to its code\n", ""),
        ("[0.07s][warning][aot,codecache,stubs] Saved blob's name 'LI' is different from 'IL'\n", ""),
        ("[0.012s][info][aot] trying\n", ""),
    ],
)
def test_why_java_starts_without_is_in_what_it_says(said: str, why: str) -> None:
    assert archives.refusal(said) == why
