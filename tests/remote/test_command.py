"""`brickyard ui --workspace` as a person starts it."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest
import requests

from brickyard.providers.simulated import SimulatedProvider
from brickyard.testing.builders import SMALL
from tests.support.certificates import certified
from tests.support.command import Cli, one_line
from tests.support.golden import Golden
from tests.support.patience import PATIENCE_S
from tests.support.remote import standing_in
from tests.support.server import TOKEN, Server


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    file.chmod(0o644)
    return file


def test_it_serves_until_it_is_told_to_stop(cli: Cli, token_file: Path, tmp_path: Path, golden: Golden) -> None:
    with Server.running(tmp_path / "behind", provider="simulated", instances=SimulatedProvider(node_types=[SMALL])) as server:
        running = cli.start("ui", "--workspace", server.url, "--token-file", str(token_file), "--port", "0", "--print")
        try:
            assert running.stdout is not None
            said = running.stdout.readline()
            link = re.search(r"http://127\.0\.0\.1:\d+/login/link\?code=\S+", said)
            assert link is not None, said
            assert f"{server.url} as admin@brickyard.local" in said
            browser = requests.Session()
            browser.get(link[0], allow_redirects=False, timeout=PATIENCE_S)
            listed = browser.get(link[0].partition("/login")[0] + "/api/2.1/clusters/list", timeout=PATIENCE_S)
            assert listed.status_code == 200
            stream = browser.get(link[0].partition("/login")[0] + "/api/2.1/changes", stream=True, timeout=PATIENCE_S)
            assert stream.status_code == 200  # a page is open while it stops
            running.send_signal(signal.SIGINT)
            _, complaints = running.communicate(timeout=PATIENCE_S)
            assert running.returncode == 0
            golden(complaints, f"chmod 600 {token_file}")
        finally:
            running.kill()
            running.communicate()


def test_the_certificate_is_checked(cli: Cli, token_file: Path, tmp_path: Path) -> None:
    token_file.chmod(0o600)
    files = certified(tmp_path / "tls", "127.0.0.1")
    with (
        Server.running(tmp_path / "behind", provider="simulated", instances=SimulatedProvider(node_types=[SMALL])) as server,
        standing_in(server.url, certificate=files) as databricks,
    ):
        asked = ("ui", "--workspace", databricks.url, "--token-file", str(token_file), "--port", "0", "--print")
        assert "certificate is not trusted" in one_line(cli.run(*asked))
        assert databricks.heard == []
        running = cli.start(*asked, SSL_CERT_FILE=str(files.ca))
        try:
            assert running.stdout is not None
            assert "/login/link?code=" in running.stdout.readline()
        finally:
            running.terminate()
            running.communicate(timeout=PATIENCE_S)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--workspace", "https://x.example"], "--token-file"),
        (["--token-file", "f"], "--workspace"),
        (["--port", "1"], "--workspace"),
        (["--plain-http"], "--workspace"),
        (["--workspace", "http://x.example", "--token-file", "f"], "unencrypted"),
        (["--workspace", "https://x.example", "--token-file", "missing"], "No such file"),
    ],
)
def test_what_is_wrong_is_one_line(cli: Cli, arguments: list[str], says: str) -> None:
    assert says in one_line(cli.run("ui", *arguments))
