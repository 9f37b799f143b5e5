"""The page's links to the documentation lead to pages that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "ui" / "src"


def test_each_help_link_leads_to_a_page_of_the_documentation() -> None:
    declared = (SOURCES / "kit" / "help.tsx").read_text().partition("export type Topic")[2].partition(";")[0]
    topics = set(re.findall(r'"([\w-]+)"', declared))
    assert topics
    assert {each for each in topics if not (ROOT / "docs" / f"{each}.md").is_file()} == set()
    text = "\n".join(each.read_text() for each in SOURCES.rglob("*.tsx"))
    assert set(re.findall(r'topic="([\w-]+)"', text)) <= topics
