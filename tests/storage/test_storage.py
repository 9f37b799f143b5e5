"""The storage: which one a setting names, secrets that are made once, and what is told through it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from brickyard.config.load import load
from brickyard.config.settings import ConfigError, Settings
from brickyard.domain.nodeops import ReadLog
from brickyard.logs.keep import NodeRecord, keep_node_logs
from brickyard.machine.disk import Amount
from brickyard.machine.pressure import DBFS_FULL
from brickyard.server.datadir import Workspace
from brickyard.storage.directory import Storage
from brickyard.storage.private import WorkspaceError
from brickyard.storage.sealer import Sealer
from tests.support.golden import Golden

STARTS = """
import sys
from pathlib import Path
from brickyard.storage.directory import Storage
sys.stdin.read(1)  # all start at one moment
storage = Storage(Path(sys.argv[1]))
print(storage.key().hex(), storage.admin_token(sys.argv[2])[0])
"""


def test_a_storage_is_a_directory(tmp_path: Path) -> None:
    assert Settings(data_dir=tmp_path).storage_dir == tmp_path
    for url in (f"{tmp_path}/a b", f"file://{tmp_path}/a%20b", f"file://localhost{tmp_path}/a%20b"):
        chosen = load(environ={}, options={"data_dir": tmp_path, "storage_url": url})
        assert chosen.storage_dir == tmp_path / "a b"
        assert load(environ={"BRICKYARD_STORAGE_URL": chosen.storage_url}).storage_dir == tmp_path / "a b"


@pytest.mark.parametrize(
    "url", ["s3://bucket/path", "relative/path", "file://host/path", "file:relative", "~/x", "/a\0b", "file:///a?b"]
)
def test_what_is_no_directory_is_refused_with_what_would_be_right(url: str, golden: Golden) -> None:
    with golden.refused(ConfigError, "BRICKYARD_STORAGE_URL"):
        load(environ={"BRICKYARD_STORAGE_URL": url})


@pytest.mark.parametrize("given", ["", "dapi-given"])
def test_key_and_token_are_made_once_by_servers_that_start_at_one_moment(tmp_path: Path, given: str) -> None:
    command = [sys.executable, "-c", STARTS, str(tmp_path), given]
    servers = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    for each in servers:
        assert each.stdin is not None
        each.stdin.write("x")
        each.stdin.flush()
    said = {each.communicate()[0] for each in servers}
    assert len(said) == 1
    key, token = said.pop().split()
    storage = Storage(tmp_path)
    assert (key, token) == (storage.key().hex(), storage.stored_token())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["admin-token", "workspace.key"]
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}
    assert given in ("", token)


def test_the_admin_token_that_was_given_last_counts(tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    made, is_new = storage.admin_token("")
    assert is_new and storage.admin_token("") == (made, False)
    assert storage.admin_token("dapi-one") == ("dapi-one", False)
    assert storage.admin_token("") == ("dapi-one", False)
    assert storage.admin_token("dapi-two") == ("dapi-two", False) and storage.stored_token() == "dapi-two"


def test_a_damaged_key_is_told_and_never_replaced(tmp_path: Path, golden: Golden) -> None:
    (tmp_path / "workspace.key").write_text("not a key")
    with golden.refused(WorkspaceError):
        Storage(tmp_path).key()
    assert (tmp_path / "workspace.key").read_text() == "not a key"


def test_a_storage_is_not_begun_beside_the_files_of_the_workspace(tmp_path: Path, golden: Golden) -> None:
    data, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    Workspace(data).prepare()
    Storage(data).key()
    with golden.refused(WorkspaceError, str(data)):
        Workspace(data, elsewhere).prepare()
    assert not elsewhere.exists()
    elsewhere.mkdir()
    (data / "workspace.key").rename(elsewhere / "workspace.key")
    Workspace(data, elsewhere).prepare()
    assert elsewhere.stat().st_mode & 0o777 == 0o700


def test_what_the_files_take_is_told_to_all_servers_and_to_nodes(tmp_path: Path) -> None:
    one, two = Storage(tmp_path), Storage(tmp_path)
    assert two.dbfs_size() == Amount()
    one.tell_dbfs_size(Amount(12, 4), full=True)
    assert two.dbfs_size() == Amount(12, 4) and (tmp_path / DBFS_FULL).exists()
    one.tell_dbfs_size(Amount(3, 1), full=False)
    assert two.dbfs_size() == Amount(3, 1) and not (tmp_path / DBFS_FULL).exists()


def test_the_newest_log_of_a_cluster_is_found_and_none_elsewhere(tmp_path: Path) -> None:
    logs = Storage(tmp_path).logs
    (tmp_path / "secret").write_text("secret")
    for number, name in enumerate(("i-1-1", "i-2-1")):
        (logs.of("c") / name).mkdir(parents=True)
        (logs.of("c") / name / "driver.log").write_text(name)
        os.utime(logs.of("c") / name, (1000 + number, 1000 + number))
    assert logs.tail("c", re.compile("driver.log"), 100) == b"i-2-1"
    assert logs.tail("c", re.compile("driver.log"), 3) == b"2-1"
    (logs.of("c") / "i-2-1" / "secret").symlink_to(tmp_path / "secret")
    os.utime(logs.of("c") / "i-2-1", (1001, 1001))
    assert logs.tail("c", re.compile("secret"), 100) is None
    assert logs.tail("../..", re.compile("secret"), 100) is None
    assert logs.trim("c", before_s=1001) == 1
    assert logs.tail("c", re.compile("driver.log"), 100) == b"i-2-1"
    assert logs.trim("c", before_s=9999) == 1 and logs.clusters() == []


def test_secrets_are_hidden_in_the_logs_of_an_agent_that_was_killed(tmp_path: Path) -> None:
    logs, sealer = Storage(tmp_path / "storage").logs, Sealer(key=b"k" * 32)
    directory = tmp_path / "i-1"
    (directory / "node" / "logs").mkdir(parents=True)
    (directory / "node" / "logs" / "stdout").write_text("it is hunter2.\nand swordfish\n")
    (directory / "node.log").write_text("started\n")
    sealed = (sealer.seal(["hunter2"]), sealer.seal(["swordfish"]))
    node = NodeRecord(cluster_id="c", generation=3, sealed=sealed)
    assert b"hunter2" not in msgspec.json.encode(node)
    keep_node_logs(directory, logs.root, instance_id="i-1", node=node)
    kept = logs.of("c") / "i-1-3"
    os.utime(kept, (1000, 1000))

    for refused in (Storage(tmp_path / "storage").logs, logs):  # one without a key, then one with another key
        assert refused.tail("c", re.compile("stdout"), 100) is None
        with pytest.raises(ValueError, match=r"seal"):
            refused.read("c", "i-1-3", ReadLog(name="stdout"))
        logs.unseal_with(Sealer(key=b"other" * 8).open)

    logs.unseal_with(sealer.open)
    assert logs.read("c", "i-1-3", ReadLog(name="stdout")).data == b"it is *******.\nand *********\n"
    assert logs.tail("c", re.compile("stdout"), 100) == b"it is *******.\nand *********\n"
    assert (kept / "stdout").read_bytes() == b"it is *******.\nand *********\n", "hidden for good"
    assert kept.stat().st_mtime == 1000, "it has not ended again"
    assert sorted(each.name for each in logs.files("c", "i-1-3")[1]) == ["agent.log", "stdout"]


def test_a_storage_that_was_removed_or_replaced_is_noticed(tmp_path: Path) -> None:
    storage = Storage(tmp_path / "storage")
    assert storage.trouble() == "", "nobody holds it"
    storage.hold(alone=False)
    assert storage.trouble() == ""
    storage.root.rename(tmp_path / "away")
    assert storage.trouble()
    storage.root.mkdir()  # what is below a mount that is gone
    assert storage.trouble()
    (storage.root / "storage.lock").touch()
    assert storage.trouble()
    (storage.root / "storage.lock").unlink()
    storage.root.rmdir()
    (tmp_path / "away").rename(storage.root)
    assert storage.trouble() == ""
    storage.close()
