"""HTML of which only what carries text is left: for notes of notebooks, whose Markdown may contain any HTML. Pure."""

from __future__ import annotations

from html import escape
from html.parser import HTMLParser

_TEXT = "p br hr blockquote pre code em strong b i u s del sub sup kbd span div a img h1 h2 h3 h4 h5 h6"
_TAGS = frozenset(f"{_TEXT} ul ol li dl dt dd table thead tbody tr th td".split())
_EMPTY = frozenset(("br", "hr", "img"))
_SILENT = frozenset(("script", "style", "template", "noscript", "iframe", "object", "svg", "math", "title", "textarea"))
MAX_DEPTH = 100


class _Cleaner(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self.open: list[str] = []
        self._silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _SILENT:
            self._silent += 1
        elif not self._silent and tag in _TAGS and len(self.open) < MAX_DEPTH:
            self.parts.append(f"<{tag}{_attributes(tag, dict(attrs))}>")
            if tag not in _EMPTY:
                self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _SILENT:
            self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if tag in _SILENT:
            self._silent = max(0, self._silent - 1)
        elif tag in self.open:
            while (last := self.open.pop()) != tag:
                self.parts.append(f"</{last}>")
            self.parts.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.parts.append(escape(data, quote=False))


def _attributes(tag: str, given: dict[str, str | None]) -> str:
    if tag == "a" and (given.get("href") or "").startswith(("https://", "http://", "mailto:", "#")):
        return f' href="{escape(given["href"] or "")}" rel="noopener noreferrer nofollow"'
    if tag == "img":
        source, alt = given.get("src") or "", escape(given.get("alt") or "")
        return f' src="{escape(source)}" alt="{alt}"' if source.startswith("data:image/") else f' alt="{alt}"'
    return ""


def safe_html(html: str) -> str:
    """The HTML with the elements of a text only: no attribute but a link's target and an image's data, every element closed."""
    cleaner = _Cleaner()
    cleaner.feed(html)
    cleaner.close()
    return "".join(cleaner.parts) + "".join(f"</{tag}>" for tag in reversed(cleaner.open))
