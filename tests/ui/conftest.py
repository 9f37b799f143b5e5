"""The web page in a real browser, against a real server on the simulated provider."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from databricks.sdk import WorkspaceClient
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Playwright, expect, sync_playwright

from brickyard.api.webpage import BUNDLE
from brickyard.providers.nodetypes import cloud_types
from brickyard.providers.simulated import SimulatedProvider
from brickyard.providers.simulated.knobsfile import Knobs
from brickyard.storage.directory import Storage
from tests.cli.conftest import cli as cli  # noqa: PLC0414 - a fixture
from tests.support.server import TOKEN, Server

SLOWER = float(os.environ.get("BRICKYARD_TEST_SLOWER_BROWSER", "1"))  # for races: pages run this many times slower
WAIT_MS = int(25_000 * SLOWER)
SETTLED_MS = 1000
# One process for all pages of the server: what it has compiled of the page's scripts, the next page has.
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--process-per-site"]
# The first draws no window around the page: a quarter less of processor time.
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, BROWSERS)), None)


@pytest.fixture(scope="session")
def playwright_loop() -> Iterator[tuple[Playwright, asyncio.AbstractEventLoop]]:
    """Playwright, and the event loop that it keeps running in this thread. It is hidden between tests: others run their own."""
    with sync_playwright() as playwright:
        loop = asyncio.get_running_loop()
        asyncio._set_running_loop(None)
        yield playwright, loop
        asyncio._set_running_loop(loop)


@pytest.fixture
def chromium(playwright_loop: tuple[Playwright, asyncio.AbstractEventLoop], launched: list[Browser]) -> Iterator[Browser]:
    """The browser, for one test."""
    playwright, loop = playwright_loop
    asyncio._set_running_loop(loop)
    if not launched:
        launched.append(playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS))
    yield launched[0]
    asyncio._set_running_loop(None)


@pytest.fixture(scope="session")
def launched() -> list[Browser]:
    """The browser once it is started; it ends with Playwright."""
    if CHROMIUM is None:
        pytest.skip("this machine has no Chromium (Debian: apt install chromium-headless-shell)")
    if not (BUNDLE / "index.html").exists():
        pytest.skip("the web page is not built: ./dev build-ui")
    expect.set_options(timeout=WAIT_MS)
    return []


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("workspace")


@pytest.fixture(scope="session")
def machines(place: Path) -> SimulatedProvider:
    knobs = Knobs(logs=True, sample_s=1.0)
    return SimulatedProvider(node_types=cloud_types(), spot_market=True, knobs=knobs, storage=Storage(place))


@pytest.fixture(scope="session")
def server(place: Path, machines: SimulatedProvider) -> Iterator[Server]:
    with Server.running(place, provider="simulated", instances=machines) as running:
        yield running


@pytest.fixture(scope="session")
def w(server: Server) -> WorkspaceClient:
    return server.client()


class Session:
    """A browser that is logged in. `said` is what its pages wrote to the console as warnings and errors."""

    def __init__(self, context: BrowserContext, server: Server) -> None:
        self.context = context
        self.server = server
        self.said: list[str] = []
        self.changed = False
        self.page = self.open()

    def open(self) -> Page:
        page = self.context.new_page()
        page.set_default_timeout(WAIT_MS)
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.said.append(str(error)))
        if SLOWER > 1:
            self.context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": SLOWER})
        return page

    def _console(self, message: ConsoleMessage) -> None:
        if message.type not in ("error", "warning") or "status of 429" in message.text:
            return  # 429: the machine has too much to do, and the page asks again
        failed = message.text.startswith("Failed to load resource")
        self.said.append(f"{message.text} {message.location['url']}" if failed else message.text)

    def log_in(self, token: str = TOKEN) -> None:
        answer = self.context.request.post(
            f"{self.server.url}/login", form={"token": token, "next": "/"}, headers={"Origin": self.server.url}, max_redirects=0
        )
        assert answer.status == 303

    def forgets(self) -> None:
        """What the page asked for before it knew that something was deleted may have been refused; later it asks no more."""
        assert all("status of 40" in each for each in self.said)
        self.said.clear()
        self.page.wait_for_timeout(SETTLED_MS)
        assert self.said == [], "the page asks for what it knows to be deleted"

    def go(self, path: str) -> Page:
        self.page.goto(self.server.url + path)
        return self.page

    def prepare(self, script: str) -> None:
        """Run a script in every page before its own. It stays: the next test gets another browser."""
        self.changed = True
        self.context.add_init_script(script)

    def forget(self, kept: Page) -> None:
        """Leave nothing in the browser but one page, which keeps its process."""
        self.context.set_offline(False)
        for page in self.context.pages:
            if page != kept:
                page.unroute_all(behavior="ignoreErrors")  # a handler that still reads an answer
                page.close()
        origin = {"origin": self.server.url, "storageTypes": "local_storage,indexeddb,service_workers,cache_storage"}
        self.context.new_cdp_session(kept).send("Storage.clearDataForOrigin", origin)
        self.context.clear_cookies()


@pytest.fixture(scope="session")
def kept() -> list[Page]:
    """A page that stays open for all tests that have `session`, if there is one. In a new context, the first page costs two
    seconds of processor time, and each later one half of that."""
    return []


@pytest.fixture
def session(chromium: Browser, server: Server, kept: list[Page]) -> Iterator[Session]:
    if not kept:
        context = chromium.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
        kept.append(context.new_page())
        kept[0].goto(f"{server.url}/login")
    opened = Session(kept[0].context, server)
    opened.log_in()
    yield opened
    opened.forget(kept[0])
    if opened.changed:
        kept.pop().context.close()
