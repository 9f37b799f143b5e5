"""How the web page's files are served, and what is said where they are missing. Needs no browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import requests

from brickyard.api.browser import webpage
from brickyard.api.webpage import WebPage
from tests.support.command import Cli
from tests.support.edge import edge
from tests.support.patience import PATIENCE_S


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    made = tmp_path / "webui"
    made.mkdir()
    (made / "index.html").write_text('<meta name="style-nonce" content="__STYLE_NONCE__">')
    (made / "app-1a2b.js").write_text("plain")
    (made / "app-1a2b.js.gz").write_text("zipped")
    (made / "app-1a2b.js.br").write_text("brotli")
    (tmp_path / "secret.js").write_text("not for you")
    return made


def get(url: str, **headers: str) -> requests.Response:
    """The raw answer: nothing is decompressed."""
    answer = requests.get(url, headers={"Accept-Encoding": "identity"} | headers, timeout=PATIENCE_S, stream=True)
    answer.raw.decode_content = False
    return answer


def test_files_are_sent_compressed_and_kept_by_browsers(bundle: Path) -> None:
    with edge(operations=webpage.OPERATIONS, web_page=WebPage(bundle)) as url:
        for asked, encoding, body in (
            ("gzip, deflate, br", "br", b"brotli"),
            ("gzip", "gzip", b"zipped"),
            ("identity", None, b"plain"),
        ):
            answer = get(f"{url}/assets/app-1a2b.js", **{"Accept-Encoding": asked})
            assert (answer.status_code, answer.headers.get("content-encoding"), answer.raw.read()) == (200, encoding, body)
            assert "immutable" in answer.headers["cache-control"]
            assert answer.headers["vary"] == "accept-encoding"
            assert answer.headers["content-type"].startswith("text/javascript")


@pytest.mark.parametrize("name", ["..%2Fsecret.js", "%2e%2e/secret.js", "missing.js", "index.html", "stamp", "app-1a2b.js.gz"])
def test_nothing_else_is_sent(bundle: Path, name: str) -> None:
    with edge(operations=webpage.OPERATIONS, web_page=WebPage(bundle)) as url:
        assert get(f"{url}/assets/{name}").status_code == 404


def test_every_answer_has_a_nonce_of_its_own_and_allows_no_other_code(bundle: Path) -> None:
    with edge(operations=webpage.OPERATIONS, web_page=WebPage(bundle)) as url:
        nonces = set()
        for path in webpage.PATHS:
            answer = requests.get(url + path, timeout=PATIENCE_S)
            nonce = answer.text.partition('content="')[2].partition('"')[0]
            policy = answer.headers["content-security-policy"]
            assert f"style-src 'self' 'nonce-{nonce}';" in policy
            assert "script-src 'self';" in policy
            assert "frame-ancestors 'none'" in policy
            assert "unsafe" not in policy
            assert answer.headers["cache-control"] == "no-store"
            nonces.add(nonce)
        assert len(nonces) == len(webpage.PATHS)


def test_a_page_that_was_not_built_says_so_until_it_is(tmp_path: Path, bundle: Path) -> None:
    built, missing = bundle, tmp_path / "missing"
    with edge(operations=webpage.OPERATIONS, web_page=WebPage(missing)) as url:
        answer = requests.get(f"{url}/compute", timeout=PATIENCE_S)
        assert answer.status_code == 503
        assert "./dev build-ui" in answer.text
        built.rename(missing)
        assert requests.get(f"{url}/compute", timeout=PATIENCE_S).status_code == 200


def test_the_command_prints_a_link_that_logs_in(cli: Cli) -> None:
    assert cli.run("ui", "--print").returncode == 1
    assert "brickyard ui" in cli.run("up", "--detach").stdout
    link = cli.run("ui", "--print").stdout.strip()
    with requests.Session() as browser:
        answer = browser.get(link, allow_redirects=False, timeout=PATIENCE_S)
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        session: Any = browser.get(f"{link.partition('/login')[0]}/login/session", timeout=PATIENCE_S).json()
        assert session["user_name"] == cli.client().current_user.me().user_name
        again = browser.get(link, allow_redirects=False, timeout=PATIENCE_S, headers={"Sec-Fetch-Site": "cross-site"})
        assert again.status_code == 403
    assert requests.get(link, timeout=PATIENCE_S).status_code == 401


def test_the_lock_file_names_no_address() -> None:
    """Not of a registry; and `npm install` writes funding links, which are to be taken out again."""
    assert "://" not in (Path(__file__).parents[2] / "ui" / "package-lock.json").read_text()
