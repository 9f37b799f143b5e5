"""A backup has what was there when it began, and is restored whole, whenever either is killed."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, insert

from brickyard.config.settings import Settings
from brickyard.domain.clock import Ids
from brickyard.domain.secrets import SecretName
from brickyard.machine.bundles import HEAD, MANIFEST, BundleWriter
from brickyard.server import backup
from brickyard.server import workspace as joined
from brickyard.server.backup import KIND, Backup, BackupFailed, back_up
from brickyard.server.datadir import WorkspaceError
from brickyard.server.restore import RestoreFailed, check_backup, restore
from brickyard.storage.directory import Storage
from brickyard.storage.vault import Vault
from brickyard.store import databasecopy, schema
from brickyard.store.postgres import driver_url
from brickyard.store.store import Store
from brickyard.store.tablecopy import TABLES
from tests.server.test_databasemove import contents, row_of
from tests.support.databases import both_databases
from tests.support.golden import Golden
from tests.support.kills import killed_at
from tests.support.postgres import Postgres

SECRET = SecretName("scope", "key")
OTHER = {"sqlite": "postgresql", "postgresql": "sqlite"}


def untold(what: str, done: int, of: int) -> None:
    """Progress that nobody sees."""


class World:
    """A workspace with a row in every table and a file of every kind."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.storage = Storage(settings.storage_dir)
        self.id = joined_id(settings)
        self.vault = Vault(path=self.storage.secrets_key_file)
        self.secret = self.vault.seal(SECRET, b"value", used=set())
        engine = create_engine(driver_url(self.url))
        with engine.begin() as connection:
            for table in TABLES:
                rows = [row_of(table, number) for number in range(1, 4)]
                for row in rows:
                    row.update({"key_id": self.secret.key_id} if "key_id" in row else {})
                connection.execute(insert(table), rows)
        engine.dispose()
        self.cluster = row_of(next(table for table in TABLES if table.name == "clusters"), 1)["cluster_id"]
        for path in (self.storage.dbfs / "a" / "one.txt", self.storage.clusters / self.cluster / "shared.txt"):
            path.parent.mkdir(parents=True)
            path.write_text(f"kept in {path.parent.name}/{path.name}")
        (self.storage.dbfs / "link").symlink_to("a/one.txt")
        os.mkfifo(self.storage.dbfs / "pipe")
        with contextlib.suppress(OSError):  # a file system without them
            os.setxattr(self.storage.dbfs / "a" / "one.txt", "user.brickyard", b'{"comment":"mine"}')
        os.utime(self.storage.dbfs / "a" / "one.txt", ns=(10**18 + 1, 10**18 + 1))

    @property
    def url(self) -> str:
        return joined.database_url(self.settings)


def joined_id(settings: Settings) -> str:
    """The id of the workspace that a server has with these settings. Raises WorkspaceError if it does not start."""
    storage, url = Storage(settings.storage_dir), joined.database_url(settings)
    store = Store.open(url, creates=lambda: joined.check_new(url, storage))
    try:
        return joined.join(store, storage, Ids(), shared=False)
    finally:
        storage.close()
        store.close()


def settings_of(place: Path, kind: str, request: pytest.FixtureRequest) -> Settings:
    place.mkdir(mode=0o700, exist_ok=True)
    if kind == "sqlite":
        return Settings(data_dir=place)
    postgres: Postgres = request.getfixturevalue("postgres")
    return Settings(data_dir=place, database_url=postgres.new_database())


@pytest.fixture
def world(tmp_path: Path, database: str, request: pytest.FixtureRequest) -> World:
    return World(settings_of(tmp_path / "old", database, request))


@both_databases
def test_a_backup_is_restored_on_the_other_kind_of_database(
    world: World, database: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    before = contents(world.url)
    (world.storage.clusters / "stranger").mkdir()
    made = back_up(world.settings, tmp_path / "b.tar", untold)
    assert (made.workspace_id, made.unsteady, made.file.stat().st_mode & 0o777) == (world.id, [], 0o600)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    elsewhere = settings_of(tmp_path / "new", OTHER[database], request)
    done = restore(elsewhere, made.file, untold)
    assert (done.workspace_id, done.files) == (world.id, made.files)
    assert contents(joined.database_url(elsewhere)) == before
    assert joined_id(elsewhere) == world.id
    new, old = Storage(elsewhere.storage_dir), world.storage
    assert new.key() == old.key()
    one = new.dbfs / "a" / "one.txt"
    assert (one.read_text(), one.stat().st_mtime_ns) == ("kept in a/one.txt", 10**18 + 1)
    assert os.listxattr(one) == os.listxattr(old.dbfs / "a" / "one.txt")
    assert (new.dbfs / "link").readlink() == Path("a/one.txt")
    assert sorted(path.name for path in new.clusters.iterdir()) == [world.cluster], "the database knows no other"
    assert not (new.dbfs / "pipe").exists()
    assert not new.restoring_file.exists() and not new.drafts.exists()
    with pytest.raises(WorkspaceError, match="empty"):
        restore(elsewhere, made.file, untold)
    assert joined_id(elsewhere) == world.id


@both_databases
def test_all_that_was_committed_before_it_began_is_in_it(world: World, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    store = Store.open(world.url)
    written = 0

    def write(*_: object) -> None:
        """A server commits while the backup is under way."""
        nonlocal written
        written += 1
        store.write_sync(lambda tx: tx.set_meta(f"mark {written}", "x"))

    write()
    try:
        made = back_up(world.settings, tmp_path / "b.tar", write)
        assert written > 1
    finally:
        store.close()
    elsewhere = settings_of(tmp_path / "new", "sqlite", request)
    restore(elsewhere, made.file, untold)
    marks = {row[0] for row in contents(joined.database_url(elsewhere))["meta"] if row[0].startswith("mark")}
    assert marks == {f"mark {number}" for number in range(1, len(marks) + 1)} and marks, "one moment"


def during(monkeypatch: pytest.MonkeyPatch, name: str, act: Callable[[], None]) -> None:
    """Does it once, when the backup has just read what has that name."""
    add, done = BundleWriter.add, list[str]()

    def added(writer: BundleWriter, entry: str, path: Path, **more: Any) -> bool:
        answer = add(writer, entry, path, **more)
        if entry == name and not done:
            done.append(name)
            act()
        return answer

    monkeypatch.setattr(BundleWriter, "add", added)


def restored(made: Backup, place: Path) -> Storage:
    place.mkdir()
    restore(Settings(data_dir=place), made.file, untold)
    return Storage(place)


def test_a_file_that_is_moved_meanwhile_is_in_it(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("early", "late"):
        (world.storage.dbfs / name).mkdir()
    (world.storage.dbfs / "late" / "f").write_text("moved")
    for one, other in (("early", "late"), ("late", "early")):  # whichever is looked at first
        with monkeypatch.context() as patched:
            source, target = world.storage.dbfs / one / "f", world.storage.dbfs / other / "f"
            if not source.exists():
                continue
            during(patched, f"dbfs/{other}", lambda source=source, target=target: source.rename(target))  # type: ignore[misc]
            made = back_up(world.settings, tmp_path / f"{one}.tar", untold)
        found = restored(made, tmp_path / one)
        assert [path.read_text() for path in found.dbfs.glob("*/f")][:1] == ["moved"]


def test_what_becomes_a_directory_meanwhile_leaves_the_backup_whole(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program replaces a file and a link by directories, between two looks."""

    def replace() -> None:
        for name in ("a/one.txt", "link"):
            (world.storage.dbfs / name).unlink()
            (world.storage.dbfs / name).mkdir()
            (world.storage.dbfs / name / "inside").write_text("new")

    during(monkeypatch, "dbfs/a/one.txt", replace)
    made = back_up(world.settings, tmp_path / "b.tar", untold)
    check_backup(made.file, untold)
    there = restored(made, tmp_path / "new").dbfs
    assert (there / "a" / "one.txt").exists()
    assert (there / "link").is_symlink()


def test_no_link_that_is_made_meanwhile_leads_a_backup_elsewhere(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program puts a link in the place of a directory whose files are being read."""
    outside, inside = tmp_path / "outside", world.storage.dbfs / "x"
    for directory, text in ((outside, "not theirs"), (inside, "theirs")):
        directory.mkdir()
        for name in ("a", "b"):
            (directory / name).write_text(text)

    def swap() -> None:
        inside.rename(world.storage.dbfs / "away")
        inside.symlink_to(outside)

    during(monkeypatch, "dbfs/x/b", swap)
    there = restored(back_up(world.settings, tmp_path / "b.tar", untold), tmp_path / "new").dbfs
    assert {path.read_text() for path in there.rglob("[ab]") if path.is_file()} == {"theirs"}


def test_paths_that_are_too_long_are_left_out_and_named(world: World, tmp_path: Path) -> None:
    """Programs can make them, step by step."""
    name = "n" * 200
    above = os.open(world.storage.dbfs, os.O_RDONLY)
    for _ in range(25):
        os.mkdir(name, dir_fd=above)
        inner = os.open(name, os.O_RDONLY, dir_fd=above)
        os.close(above)
        above = inner
    os.close(above)
    made = back_up(world.settings, tmp_path / "b.tar", untold)
    assert made.left_out == ["/".join(("dbfs", *[name] * 16))]
    assert (restored(made, tmp_path / "new").dbfs / name).is_dir()


def test_a_file_that_is_written_meanwhile_is_there_in_one_of_its_versions(world: World, tmp_path: Path) -> None:
    path, versions = world.storage.dbfs / "big", 0
    size = 3 << 20

    def rewrite(what: str, done: int, of: int) -> None:
        """In the middle of reading it, in its place."""
        nonlocal versions
        if what == "files" and versions < 2:
            versions += 1
            with path.open("r+b") as file:
                file.write(bytes([versions]) * size)

    path.write_bytes(bytes(size))
    made = back_up(world.settings, tmp_path / "b.tar", rewrite)
    assert made.unsteady == []
    assert set(restored(made, tmp_path / "new").dbfs.joinpath("big").read_bytes()) == {2}


def test_a_table_whose_log_grows_meanwhile_has_what_its_versions_name(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = world.storage.dbfs / "t"
    log = table / "_delta_log"
    log.mkdir(parents=True)

    def commit(number: int) -> None:
        (table / f"part-{number}").write_text("rows")
        (log / f"{number:020}.json").write_text(f"part-{number}")

    def commit_more() -> None:
        commit(3)
        commit(4)

    for number in range(3):
        commit(number)
    monkeypatch.setattr("brickyard.server.backup.LOOKS", 1)  # the first look is right by itself
    during(monkeypatch, f"dbfs/t/_delta_log/{1:020}.json", commit_more)
    made = back_up(world.settings, tmp_path / "b.tar", untold)
    there = restored(made, tmp_path / "new").dbfs / "t"
    versions = sorted((there / "_delta_log").iterdir())
    assert len(versions) >= 3
    assert [int(version.stem) for version in versions] == list(range(len(versions)))
    assert all((there / version.read_text()).exists() for version in versions)


def test_a_log_that_is_cleaned_up_meanwhile_is_read_again(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = world.storage.dbfs / "t" / "_delta_log"
    log.mkdir(parents=True)
    for number in range(4):
        (log / f"{number:020}.json").write_text("")

    def clean_up() -> None:
        (log / f"{3:020}.checkpoint.parquet").write_text("")
        for number in range(3):
            (log / f"{number:020}.json").unlink()

    during(monkeypatch, "dbfs/t/_delta_log", clean_up)
    found = restored(back_up(world.settings, tmp_path / "b.tar", untold), tmp_path / "new")
    names = {path.name for path in (found.dbfs / "t" / "_delta_log").iterdir()}
    assert names == {f"{3:020}.json", f"{3:020}.checkpoint.parquet"}


def test_secrets_can_be_read_although_their_key_changes_meanwhile(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rotate() -> None:
        world.vault.begin_rotation({world.secret.key_id})
        world.vault.end_rotation()

    copy = databasecopy.copy_database

    def copied(*given: Any, **named: Any) -> None:
        copy(*given, **named)
        rotate()

    monkeypatch.setattr(backup, "copy_database", copied)
    found = restored(back_up(world.settings, tmp_path / "b.tar", untold), tmp_path / "new")
    assert Vault(path=found.secrets_key_file).open(SECRET, world.secret) == b"value"
    assert Vault(path=found.secrets_key_file).current() == world.vault.current()


# ── kills ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_backup_that_is_killed_leaves_nothing_under_its_name(world: World, tmp_path: Path) -> None:
    file, number = tmp_path / "b.tar", 1
    while killed_at(number, lambda: back_up(world.settings, file, untold)):
        if file.exists():  # all was done but to remove the draft's directory
            check_backup(file, untold)
            file.unlink()
        number += 1
    assert number > 4
    file.unlink(missing_ok=True)
    back_up(world.settings, file, untold)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@both_databases
def test_a_restore_that_is_killed_is_repeated(
    world: World, tmp_path: Path, database: str, request: pytest.FixtureRequest
) -> None:
    before = contents(world.url)
    file = back_up(world.settings, tmp_path / "b.tar", untold).file
    number, step = 1, 1 if database == "sqlite" else 25
    elsewhere = settings_of(tmp_path / "new", database, request)
    while killed_at(number, functools.partial(restore, elsewhere, file, untold)):
        with contextlib.suppress(WorkspaceError):  # no server starts
            if Storage(elsewhere.storage_dir).traces():  # it has begun
                assert joined_id(elsewhere) == world.id, "or it has all of it"
                assert contents(joined.database_url(elsewhere)) == before
                elsewhere = settings_of(tmp_path / f"new-{number}", database, request)
        number += step
    assert number > 2 * step, "it was killed"
    assert joined_id(elsewhere) == world.id
    assert contents(joined.database_url(elsewhere)) == before
    assert (Storage(elsewhere.storage_dir).dbfs / "a" / "one.txt").read_text() == "kept in a/one.txt"


def test_a_server_that_starts_removes_what_a_finished_restore_has_left(world: World, tmp_path: Path) -> None:
    world.storage.restoring_file.write_text("")
    world.storage.drafts.mkdir()
    joined_id(world.settings)
    assert not world.storage.restoring_file.exists() and not world.storage.drafts.exists()


# ── what is refused ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_damaged_backup_is_refused_with_the_name_of_what_is_damaged(world: World, tmp_path: Path, golden: Golden) -> None:
    file = back_up(world.settings, tmp_path / "b.tar", untold).file
    whole = file.read_bytes()

    def refused(content: bytes) -> str:
        file.write_bytes(content)
        with golden.refused(RestoreFailed) as found:
            restore(Settings(data_dir=tmp_path / "new"), file, untold)
        assert not any(Storage(tmp_path / "new").kept[number].exists() for number in range(3)), "nothing of it is in its place"
        return str(found.value)

    at = whole.index(b"kept in a/one.txt")
    assert "dbfs/a/one.txt" in refused(whole[:at] + b"K" + whole[at + 1 :])
    assert MANIFEST not in refused(whole[: len(whole) // 2])
    assert MANIFEST in refused(whole.replace(b'"entries"', b'"entrieZ"'))
    refused(b"no tar at all")
    refused(altered(whole, schema="9999", version="99.0.0"))
    refused(altered(whole, kind="runtimes"))
    file.write_bytes(whole)
    assert check_backup(file, untold).workspace_id == world.id
    restore(Settings(data_dir=tmp_path / "new"), file, untold)


def altered(whole: bytes, **about: str) -> bytes:
    """The bundle with another beginning."""
    out = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(whole)) as old, tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as new:
        for info in old:
            content = old.extractfile(info)
            data = content.read() if content is not None else b""
            if info.name == HEAD:
                data = json.dumps({**json.loads(data), **about}).encode()
                info.size = len(data)
            new.addfile(info, io.BytesIO(data))
    return out.getvalue()


@pytest.mark.parametrize("name", ["../out", "/out", "dbfs/../../out", "instances/x", "dbfs/link/out"])
def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    file = tmp_path / "b.tar"
    (tmp_path / "link").symlink_to(tmp_path)
    with file.open("wb") as stream:
        writer = BundleWriter(stream, KIND, {"schema": schema.newest(), "version": "0"})
        writer.add("dbfs/link", tmp_path / "link")
        writer.data(name, b"x")
        writer.close()
    with pytest.raises(RestoreFailed):
        restore(Settings(data_dir=tmp_path / "new"), file, untold)
    assert not (tmp_path / "out").exists()


def test_what_has_no_room_or_is_in_use_is_refused(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    (tmp_path / "there.tar").touch()
    with golden.refused(BackupFailed):
        back_up(world.settings, tmp_path / "there.tar", untold)
    with golden.refused(WorkspaceError):
        back_up(Settings(data_dir=tmp_path / "none"), tmp_path / "b.tar", untold)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched, golden.refused(BackupFailed):
        patched.setattr(BundleWriter, "close", full)
        back_up(world.settings, tmp_path / "b.tar", untold)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old", "there.tar"]
    file = back_up(world.settings, tmp_path / "b.tar", untold).file
    (elsewhere := tmp_path / "new").mkdir()
    with monkeypatch.context() as patched, golden.refused(RestoreFailed):
        patched.setattr("brickyard.machine.bundles._restore", full)
        restore(Settings(data_dir=elsewhere), file, untold)
    assert not Storage(elsewhere).restoring_file.exists()
    (elsewhere / "dbfs").mkdir()
    (elsewhere / "dbfs" / "mine").touch()
    with golden.refused(WorkspaceError):
        restore(Settings(data_dir=elsewhere), file, untold)
    assert (elsewhere / "dbfs" / "mine").exists()
