"""Which requests of a browser count."""

from __future__ import annotations

from urllib.parse import urljoin, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brickyard.api.edge import cookies
from brickyard.plan.browsers import loopback, own_request, way_back

OWN = "https://brickyard.example"


@given(st.text(max_size=40) | st.text(alphabet="/\\.:@?#%ae \t\r\n", max_size=12).map(lambda text: "/" + text))
def test_the_way_back_stays_here(target: str) -> None:
    there = urljoin(OWN + "/login", way_back(target).replace("\\", "/"))  # browsers take one for the other
    assert there.startswith(OWN + "/")
    assert not set("\r\n\t") & set(way_back(target))


@given(st.text(max_size=60) | st.text(alphabet="http:/localhost127.0[]1@#?\\ ", max_size=40))
def test_what_counts_as_this_machine_is_this_machine(uri: str) -> None:
    if origin := loopback(uri):
        assert urlsplit(uri).hostname in ("localhost", "127.0.0.1", "::1")
        assert uri == origin or uri.startswith(origin + "/")


@pytest.mark.parametrize(
    "uri", ["http://localhost:8020", "http://localhost:8020/cb", "http://127.0.0.1:1/", "http://[::1]:65535"]
)
def test_clients_listen_there(uri: str) -> None:
    assert loopback(uri)


def test_another_page_does_not_count() -> None:
    assert own_request(own_origin=OWN, origin=OWN, fetch_site="same-origin")
    assert own_request(own_origin=OWN, origin="", fetch_site="")
    for origin, site in (("null", ""), ("http://brickyard.example", ""), (OWN, "cross-site"), ("", "same-site")):
        assert not own_request(own_origin=OWN, origin=origin, fetch_site=site)


def test_the_cookie_of_https_counts_only_there() -> None:
    written = cookies.written("x", https=True)
    assert written == "__Host-brickyard-session=x; Path=/; HttpOnly; SameSite=Lax; Secure"
    header = written.partition(";")[0]
    assert cookies.read(header, https=True) == "x"
    assert cookies.read(header, https=False) == ""
    assert cookies.read("brickyard-session=y", https=True) == ""
    assert cookies.read("a=1; brickyard-session=y; b=2", https=False) == "y"


def test_cookies_of_other_programs_of_the_host_hide_none() -> None:
    for other in ('prefs={"theme": "dark"}', "list[0]=x", "caf\xe9=au lait", "=", "", 'open="quote'):
        assert cookies.read(f"{other}; brickyard-session=y", https=False) == "y"
        assert cookies.read(f"brickyard-session=y; {other}", https=False) == "y"
    assert cookies.read('prefs="brickyard-session=x"', https=False) == ""
    assert cookies.read("", https=False) == ""
