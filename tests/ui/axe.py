"""What a browser finds against WCAG 2.2 AA, and what would like to be markup."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

HOSTILE = "<img src=x onerror=\"document.title='taken over'\">"
_AXE = Path(__file__).parents[2] / "ui" / "node_modules" / "axe-core" / "axe.min.js"
# Colours that are still on their way from one scheme to the other have no meaning.
_SETTLED = """async () => {
  const moving = document.getAnimations().filter(each => each instanceof CSSTransition);
  await Promise.allSettled(moving.map(each => each.finished));
}"""
_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]


def violations(page: Page) -> list[str]:
    """What axe finds. Skips the test where axe is not installed."""
    if not _AXE.exists():
        pytest.skip("axe-core is not installed: ./dev build-ui")
    page.evaluate(_SETTLED)
    page.evaluate(_AXE.read_text() + ";0")
    found = page.evaluate("rules => axe.run({runOnly: rules, iframes: false})", _RULES)
    return [f"{each['id']}: {node['html'][:200]}" for each in found["violations"] for node in each["nodes"]]


def violations_in_both_schemes(page: Page) -> list[str]:
    """The same, of what is shown, in light and in dark colours; the page is left as it is in the light ones."""
    schemes: tuple[Any, ...] = ("dark", "light")
    found: list[str] = []
    for scheme in schemes:
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        expect(page.locator("html")).to_have_attribute("data-mantine-color-scheme", scheme)
        found += violations(page)
    return found
