"""The list of clusters in a browser: until it can be used, and the longest time in which it does not answer, with many rows.

It takes Chromium, and the web page as `./dev build-ui` makes it. The browser itself slows the processor down, to a quarter of the
speed of a desktop: by how much, the machine's BenchmarkIndex says, as Lighthouse measures it.
"""

from __future__ import annotations

import gzip
import shutil
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from playwright.sync_api import Browser, Page, expect, sync_playwright

from bench._harness import Row, limited, spread, table
from bench._servers import TOKEN, Served
from bench.pages import filled
from brickyard.api.webpage import BUNDLE

FEW, MANY = 1_000, 10_000
SLOWDOWN = 4
DESKTOP = 1_500  # its BenchmarkIndex: between Lighthouse's low-end and high-end desktops (docs/throttling.md there)
ROUNDS = 9
VISITS = 4  # from the third on Chromium keeps what it has compiled
REST_MS = 1_500  # after a visit
READY_MS = 600  # the list of FEW clusters, slowed down, for who uses it
ANSWER_MS = 200  # what people notice as at once: the list of MANY, as fast as the machine is
SCRIPTS_KIB = 160
PATIENCE_MS = 120_000

# When the first row is drawn and the page's thread has nothing else to do; and how long single tasks took.
WATCH = """
window.bench = {longest: 0};
new PerformanceObserver(list => {
  for (const task of list.getEntries()) window.bench.longest = Math.max(window.bench.longest, task.duration);
}).observe({type: "longtask", buffered: true});
window.bench.ready = new Promise(done => {
  const seen = new MutationObserver(() => {
    if (document.querySelector("tbody tr a") === null) return;
    seen.disconnect();
    requestAnimationFrame(() => setTimeout(() => done(performance.now())));
  });
  seen.observe(document, {childList: true, subtree: true});
});
"""

# How fast the browser computes: the mean of two figures, each of how many tens of times in a second it makes a string of 10,000
# characters, one by one, or copies 100,000 numbers. What Lighthouse calls BenchmarkIndex.
INDEX = """() => {
  const tens = (once) => {
    const began = performance.now();
    let times = 0;
    for (; performance.now() - began < 500; times += 1) once(times);
    return times * 100 / (performance.now() - began);
  };
  const numbers = [Array.from({length: 100000}, (_, at) => at), Array.from({length: 100000}, (_, at) => at)];
  const strings = tens(() => {
    let made = "";
    for (let at = 0; at < 10000; at += 1) made += "a";
    return made;
  });
  const copies = tens((times) => {
    const from = numbers[times % 2], to = numbers[(times + 1) % 2];
    for (let at = 0; at < from.length; at += 1) to[at] = from[at];
  });
  return (strings + copies) / 2;
}"""


def row(what: str, rounds: Sequence[float], unit: str, most: float | None) -> Row:
    """A measured median with the most that it may be."""
    return [what, *limited(statistics.median(rounds), most, f"{spread(rounds, '.0f')} {unit}")]


@contextmanager
def browser() -> Iterator[Browser]:
    """Chromium, without a screen."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None or not (BUNDLE / "index.html").exists():
        raise SystemExit("It takes Chromium (Debian: apt install chromium) and the web page (./dev build-ui).")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        yield started
        started.close()


@contextmanager
def opened(chromium: Browser, served: Served, *, slowdown: float) -> Iterator[Page]:
    """A page of a browser that has nothing in its cache, and is logged in."""
    context = chromium.new_context(viewport={"width": 1440, "height": 900})
    answer = context.request.post(
        f"{served.url}/login", form={"token": TOKEN, "next": "/"}, headers={"Origin": served.url}, max_redirects=0
    )
    if answer.status != 303:
        raise RuntimeError(f"the log-in answered {answer.status}: {answer.text()[:300]}")
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.add_init_script(WATCH)
    context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": slowdown})
    yield page
    context.close()


def loaded(page: Page, served: Served) -> float:
    """Opens the list; ms from the beginning of the navigation until it can be used.

    The browser leaves an empty page for it. A list that still loads the rest of its code would be left first, and that counts as
    time of the navigation: up to 120 ms, which nobody waits who opens the list.
    """
    page.goto("about:blank")
    page.goto(f"{served.url}/compute", wait_until="commit")
    return float(page.evaluate("window.bench.ready"))


def longest(page: Page, act: Callable[[], None]) -> float:
    """ms of the longest task of the page's thread while something is done; 0 if none took 50 ms."""
    page.evaluate("window.bench.longest = 0")
    act()
    page.evaluate("new Promise(done => requestAnimationFrame(() => setTimeout(done, 100)))")  # an observer is told afterwards
    return float(page.evaluate("window.bench.longest"))


def scripts_kib(chromium: Browser, served: Served) -> float:
    """KiB of JavaScript, compressed, that the list needs."""
    with opened(chromium, served, slowdown=1) as page:
        names: set[str] = set()
        page.on("response", lambda answer: names.add(answer.url.rpartition("/")[2]))
        loaded(page, served)
        return sum(len(gzip.compress((BUNDLE / name).read_bytes())) for name in names if name.endswith(".js")) / 1024


def benchmark_index(chromium: Browser) -> float:
    """Of this machine, now. Other machines of the same host make it vary."""
    page = chromium.new_page()
    index = float(page.evaluate(INDEX))
    page.close()
    return index


def few(chromium: Browser, served: Served) -> list[Row]:
    visits: list[list[float]] = []
    indexes: list[float] = []
    for _ in range(ROUNDS):
        indexes.append(benchmark_index(chromium))
        with opened(chromium, served, slowdown=max(1.0, indexes[-1] * SLOWDOWN / DESKTOP)) as page:
            visits.append([])
            for _ in range(VISITS):
                visits[-1].append(loaded(page, served))
                page.wait_for_timeout(REST_MS)  # what the page does in idle times, and the browser's own caches
    first, second, *_, last = zip(*visits, strict=True)
    slow = f"{FEW} clusters, {SLOWDOWN} times slower than a desktop:"
    return [
        row(f"BenchmarkIndex of this machine: slowed down to {DESKTOP / SLOWDOWN:.0f}", indexes, "", None),
        row(f"{slow} until the list can be used, first visit", first, "ms", None),
        row(f"{slow} the same, second visit: scripts in the browser's cache", second, "ms", None),
        row(f"{slow} the same, fourth visit: compiled scripts, too", last, "ms", READY_MS),
    ]


def many(chromium: Browser, served: Served) -> list[Row]:
    found: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        with opened(chromium, served, slowdown=1) as page:
            found.setdefault("until the list can be used", []).append(loaded(page, served))
            expect(page.get_by_text(f"{MANY:,} clusters")).to_be_visible()
            for what, act in (("scrolling through it", _scroll), ("a search as it is typed", _search), ("sorting", _sort)):
                took = longest(page, lambda act=act, page=page: act(page))  # type: ignore[misc] # bound to this round
                found.setdefault(f"longest pause, {what}", []).append(took)
    return [
        row(f"{MANY} clusters: {what}", rounds, "ms", None if what.startswith("until") else ANSWER_MS)
        for what, rounds in found.items()
    ]


def _scroll(page: Page) -> None:
    page.locator(".scroller").hover()
    for _ in range(20):
        page.mouse.wheel(0, 4_000)
    reached = page.locator(".scroller").evaluate("element => (element.scrollTo(0, element.scrollHeight), element.scrollTop)")
    if reached < 100_000:
        raise RuntimeError(f"the list ends after {reached} pixels: not all rows are in it")


def _search(page: Page) -> None:
    page.keyboard.press("/")
    page.keyboard.type("c-009999", delay=30)
    expect(page.get_by_text("c-009999")).to_be_visible()
    page.get_by_label("Clear the search").click()


def _sort(page: Page) -> None:
    head = page.get_by_role("columnheader", name="Name")
    for _ in range(2):
        head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "descending")


def main() -> int:
    with browser() as chromium:
        with filled(FEW) as served:
            rows = [row("JavaScript of the list, gzip", [scripts_kib(chromium, served)], "KiB", SCRIPTS_KIB)]
            rows += few(chromium, served)
        with filled(MANY) as served:
            rows += many(chromium, served)
    title = f"The list of clusters in a browser, medians of {ROUNDS} rounds"
    return table(title, ["what", "median (fastest-slowest)", "at most"], rows)


if __name__ == "__main__":
    sys.exit(main())
