"""A workspace whose storage is apart from its server's data directory, as a person sets it up."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from tests.support.command import Cli, one_line
from tests.support.golden import Golden


def test_a_storage_of_its_own_holds_the_workspace(tmp_path: Path, golden: Golden) -> None:
    cli, storage, other = Cli(tmp_path), tmp_path / "shared volume", tmp_path / "other"
    url = f"file://{str(storage).replace(' ', '%20')}"
    assert cli.run("up", "--detach", "--storage-url", url).returncode == 0
    try:
        # Commands that were told nothing of it learn from the server where it is.
        status = json.loads(cli.run("status", "--json").stdout)
        assert status["storage_dir"] == str(storage)
        w = cli.client()
        handle = w.dbfs.create("/f").handle
        assert handle is not None
        w.dbfs.add_block(handle, base64.b64encode(b"before ").decode())
        assert cli.run("down").returncode == 0
        assert {path.name for path in cli.data.iterdir()}.isdisjoint({"admin-token", "workspace.key", "dbfs", "uploads", "logs"})
        assert {"admin-token", "workspace.key", "workspace.id", "dbfs", "uploads"} <= {path.name for path in storage.iterdir()}

        said = one_line(cli.run("up", "--detach", "--storage-url", "s3://bucket"))
        golden(said, "s3://bucket", "file:///")
        (other / "dbfs").mkdir(parents=True)
        (other / "workspace.id").write_text("1234567890123456\n")
        said = one_line(cli.run("up", "--detach", "--storage-url", str(other)))
        assert f"the storage {other} to 1234567890123456" in said and "storage_url" in said
        assert not (other / "admin-token").exists()

        assert cli.run("up", "--detach", "--storage-url", str(storage)).returncode == 0
        w = cli.client()
        w.dbfs.add_block(handle, base64.b64encode(b"after").decode())
        w.dbfs.close(handle)
        assert (storage / "dbfs" / "f").read_bytes() == b"before after"
    finally:
        cli.run("down")
