"""The documentation site: built strictly from the pages, and each page with all that GitHub shows of it."""

from __future__ import annotations

import json
import re
import shutil
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest
from markdown_it import MarkdownIt

from tests.support.patience import PATIENCE_S
from website.__main__ import loopback
from website.build import PAGES, ROOT, SiteError, add_version

BLOCKS = ("ul", "ol", "li", "table", "tr", "pre", "h2", "h3", "img")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("site")
    add_version(made, "1.2.3")
    return made


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A copy of the pages, to be changed."""
    for name in PAGES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tmp_path / name)
        else:
            shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def blocks(html: str) -> Counter[str]:
    return Counter({name: len(re.findall(rf"<{name}[ >]", html)) for name in BLOCKS})


def html_of(site: Path, page: Path) -> str:
    """What the site has of a page of the checkout, without the menus around it."""
    folder = page.parent if page.name == "README.md" else page.with_suffix("")
    text = (site / "1.2.3" / folder / "index.html").read_text()
    article = re.search(r"<article[^>]*>(.*)</article>", text, re.DOTALL)
    assert article is not None
    return article[1]


def test_each_page_has_the_lists_tables_and_code_that_github_shows(site: Path) -> None:
    github = MarkdownIt("commonmark").enable("table")
    pages = [Path(name) for name in PAGES if name.endswith(".md")]
    pages += sorted(each.relative_to(ROOT) for each in (ROOT / "docs").rglob("*.md"))
    lost = {
        str(page): dict(differences)
        for page in pages
        if (differences := blocks(github.render((ROOT / page).read_text())) - blocks(html_of(site, page)))
    }
    assert lost == {}, "put an empty line before each list, and four spaces before a nested one (docs/dev/website.md)"


def test_the_readme_is_the_front_and_every_page_is_found(site: Path) -> None:
    title = re.search(r"^# (.*)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert title is not None
    assert title[1] in html_of(site, Path("README.md"))
    found = {item["location"].partition("#")[0] for item in json.loads((site / "1.2.3" / "search.json").read_text())["items"]}
    assert {f"docs/{each.stem}/" for each in (ROOT / "docs").glob("*.md")} <= found


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    with loopback(site, 0) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_it_is_served_with_its_newest_version_in_front(address: str) -> None:
    with urllib.request.urlopen(f"{address}/versions.json", timeout=PATIENCE_S) as answer:  # noqa: S310 - our own server
        assert [(each["version"], each["aliases"]) for each in json.load(answer)] == [("1.2.3", ["latest"])]
    with urllib.request.urlopen(f"{address}/", timeout=PATIENCE_S) as answer:  # noqa: S310 - as above
        assert b"1.2.3/" in answer.read()


def test_links_that_lead_nowhere_fail_and_change_nothing(site: Path, source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {each: each.stat().st_mtime_ns for each in site.rglob("*")}
    with (source / "docs" / "ui.md").open("a") as page:
        page.write("\n[x](pools.md#no-such-heading)\n\n[x](no-such-page.md)\n")
    with pytest.raises(SiteError):
        add_version(site, "1.2.4", source=source)
    assert {each: each.stat().st_mtime_ns for each in site.rglob("*")} == before
    reported = capsys.readouterr().err
    assert [name for name in ("no-such-heading", "no-such-page") if name not in reported] == []
