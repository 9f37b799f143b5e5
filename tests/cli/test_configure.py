"""What `brickyard configure` does to a file that people keep their other workspaces in."""

from __future__ import annotations

import configparser
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from brickyard.cli import CliError
from brickyard.cli.configure import command, profile_to_use
from brickyard.server.datadir import Workspace

URL, TOKEN = "http://127.0.0.1:8080", "dapi1"
THEIRS = "; mine\n[DEFAULT]\nhost = https://adb-1.example.com/\ntoken = dapitheirs\n\n# at work\n[work]\nhost=https://work.example.com\n"


class Desk:
    """A person's file, and the command on a workspace that runs."""

    def __init__(self, home: Path) -> None:
        self.file = home / "cfg"
        self.workspace = Workspace(home / "data")
        self.workspace.prepare()
        self.workspace.lock()
        self.workspace.storage.admin_token(TOKEN)
        self.workspace.announce(URL)

    def configure(self, *arguments: str) -> Result:
        place = ["--data-dir", str(self.workspace.data_dir)]
        return CliRunner(env={"DATABRICKS_CONFIG_FILE": str(self.file)}).invoke(command, [*arguments, *place])

    def leads_to(self, profile: str) -> tuple[str | None, str | None]:
        """Host and token, read with what the SDK reads it with."""
        file = configparser.ConfigParser()
        file.read(self.file)
        values = file.defaults() if profile == "DEFAULT" else dict(file[profile])
        return values.get("host"), values.get("token")


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    for name in [name for name in os.environ if name.startswith(("DATABRICKS_", "BRICKYARD_"))]:
        monkeypatch.delenv(name)
    made = Desk(tmp_path)
    monkeypatch.setenv("DATABRICKS_CONFIG_FILE", str(made.file))
    yield made
    assert made.workspace._lock is not None
    os.close(made.workspace._lock)


def test_a_new_file_gets_the_default_profile(desk: Desk) -> None:
    done = desk.configure()
    assert (done.exit_code, desk.leads_to("DEFAULT")) == (0, (URL, TOKEN)), done.output
    assert desk.file.stat().st_mode & 0o777 == 0o600
    assert not desk.file.with_name("cfg.bak").exists()
    assert profile_to_use() == "DEFAULT"


@pytest.mark.parametrize(
    "empty", ["[DEFAULT]\n", "; as the CLI leaves it\n[DEFAULT]\n\n[work]\nhost = https://work.example.com\n"]
)
def test_an_empty_default_is_free(desk: Desk, empty: str) -> None:
    desk.file.write_text(empty)
    assert desk.configure().exit_code == 0
    assert desk.leads_to("DEFAULT") == (URL, TOKEN)


def test_a_default_that_leads_elsewhere_stays(desk: Desk) -> None:
    desk.file.write_text(THEIRS)
    desk.file.chmod(0o644)
    done = desk.configure()
    assert done.exit_code == 0, done.output
    assert desk.file.read_text().startswith(THEIRS)
    assert desk.leads_to("DEFAULT") == ("https://adb-1.example.com/", "dapitheirs")
    assert desk.leads_to("brickyard") == (URL, TOKEN)
    assert "export DATABRICKS_CONFIG_PROFILE=brickyard" in done.output
    assert "[DEFAULT] points to https://adb-1.example.com and is unchanged." in done.output
    backup = desk.file.with_name("cfg.bak")
    assert backup.read_text() == THEIRS
    assert {path.stat().st_mode & 0o777 for path in (desk.file, backup)} == {0o600}
    assert profile_to_use() == "brickyard"


def test_its_own_profiles_follow_the_workspace(desk: Desk) -> None:
    desk.file.write_text(THEIRS)
    assert desk.configure().exit_code == 0
    desk.workspace.announce("http://127.0.0.1:9090")
    assert desk.configure().exit_code == 0
    assert desk.leads_to("brickyard") == ("http://127.0.0.1:9090", TOKEN)
    assert desk.file.read_text().count("[brickyard]") == 1


@pytest.mark.parametrize("name", ["work", "DEFAULT", "brickyard"])
def test_a_profile_that_leads_elsewhere_is_replaced_on_request_only(desk: Desk, name: str) -> None:
    desk.file.write_text(before := f"{THEIRS}[brickyard]\nhost = https://else.example.com\n")
    arguments = [] if name == "brickyard" else ["--profile", name]
    refused = desk.configure(*arguments)
    assert isinstance(refused.exception, SystemExit | CliError)
    assert desk.file.read_text() == before
    assert desk.configure(*arguments, "--replace").exit_code == 0
    assert desk.leads_to(name) == (URL, TOKEN)
    assert "# at work\n" in desk.file.read_text(), "comments before a profile belong to it"


def test_a_server_with_tls_has_its_clients_urls_and_what_they_must_trust(desk: Desk) -> None:
    desk.workspace.announce(URL, client_url="https://bricks.example.com:8080", ca_file="/data dir/tls/ca.pem")
    done = desk.configure()
    assert (done.exit_code, desk.leads_to("DEFAULT")) == (0, ("https://bricks.example.com:8080", TOKEN)), done.output
    assert "export GRPC_DEFAULT_SSL_ROOTS_FILE_PATH='/data dir/tls/ca.pem'" in done.output
