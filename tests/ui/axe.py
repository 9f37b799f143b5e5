"""What a browser finds against WCAG 2.2 AA, and what would like to be markup."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.support.depth import ALL, DEEP

HOSTILE = "<img src=x onerror=\"document.title='taken over'\">"
_AXE = Path(__file__).parents[2] / "ui" / "node_modules" / "axe-core" / "axe.min.js"
# Colours that are still on their way from one scheme to the other have no meaning.
_SETTLED = """async () => {
  const moving = document.getAnimations().filter(each => each instanceof CSSTransition);
  await Promise.allSettled(moving.map(each => each.finished));
}"""
# What is in order is not described: that would take twice as long as to find what is not.
_RUN = "rules => axe.run({runOnly: rules, iframes: false, resultTypes: ['violations']}).then(found => found.violations)"
Look = tuple[Literal["light", "dark"], int]
# Each scheme and each width; `./dev test --all` and deep runs have each with each.
LOOKS: tuple[Look, ...] = (("light", 1440), ("dark", 1024), ("light", 390))
if ALL or DEEP:
    LOOKS += (("light", 1024), ("dark", 1440), ("dark", 390))
_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]


def violations(page: Page) -> list[str]:
    """What axe finds. Skips the test where axe is not installed."""
    if not _AXE.exists():
        pytest.skip("axe-core is not installed: ./dev build-ui")
    page.evaluate(_SETTLED)
    if not page.evaluate("'axe' in window"):
        page.evaluate(_AXE.read_text() + ";0")
    found = page.evaluate(_RUN, _RULES)
    return [f"{each['id']}: {node['html'][:200]}" for each in found for node in each["nodes"]]


def painted(page: Page, scheme: Literal["light", "dark"]) -> None:
    """The page in light or in dark colours."""
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    if page.locator("main#main").count():
        expect(page.locator("html")).to_have_attribute("data-mantine-color-scheme", scheme)


# The elements because of which one scrolls sideways.
WIDER = """element => {
  if (element.scrollWidth <= element.clientWidth) return [];
  const edge = element.getBoundingClientRect().right;
  const out = [...element.querySelectorAll("*")].filter((each) => each.getBoundingClientRect().right > edge + 0.5);
  return ["something", ...out.map((each) => each.outerHTML.slice(0, 120))];
}"""


def violations_in_both_schemes(page: Page) -> list[str]:
    """The same, of what is shown, in light and in dark colours; the page is left as it is in the light ones."""
    found: list[str] = []
    for scheme in ("dark", "light"):
        painted(page, scheme)
        found += violations(page)
    return found


def readable(page: Page, *, fits: Sequence[str] = ("html",), looks: Sequence[Look] = LOOKS, shown: Locator | None = None) -> None:
    """In each scheme and at each width: `shown` is there, axe finds nothing, and no element of `fits` scrolls sideways."""
    for scheme, width in looks:
        page.set_viewport_size({"width": width, "height": 900})
        painted(page, scheme)
        if shown is not None:
            expect(shown).to_be_visible()
        assert violations(page) == [], (scheme, width)
        for element in fits:
            wide = page.locator(element).evaluate(WIDER)
            assert wide == [], f"{element} scrolls sideways at {width}: {wide}"
    assert page.title() != "taken over"
