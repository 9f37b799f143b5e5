"""A notebook with its output as one page of HTML, which needs nothing else and runs no script. Pure.

What users' code has made is text here, or in a frame without scripts and without this page's origin.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape, unescape
from keyword import kwlist
from typing import Any

from brickyard.domain.notebookcells import NotebookCell
from brickyard.features.runs.safehtml import safe_html

MAX_PAGE = 24 << 20  # characters; the output of later cells is left out
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'"
_STYLE = """
:root { color-scheme: light dark; --line: light-dark(#d5d9de, #3b4148); --soft: light-dark(#58616b, #a3adb8);
  --code: light-dark(#f6f7f9, #1d2125); --bad: light-dark(#b3261e, #ff8a80); }
html { background: light-dark(#ffffff, #14171a); color: light-dark(#1b1f23, #e6e9ec); }
a { color: light-dark(#0b4fa8, #7ab7ff); }
body { background: inherit; font: 14px/1.5 system-ui, sans-serif; max-width: 1100px; margin: 24px auto; padding: 0 16px; }
h1.notebook { font-size: 22px; margin: 0; } .soft { color: var(--soft); font-size: 12px; }
section { margin: 20px 0; } h2.title { font-size: 15px; margin: 0 0 4px; }
pre { font: 12.5px/1.5 ui-monospace, monospace; margin: 0; white-space: pre-wrap; overflow-wrap: anywhere; }
pre.code { background: var(--code); border: 1px solid var(--line); border-radius: 6px; padding: 8px 12px; }
.output { margin: 8px 0 0 12px; } pre.error { color: var(--bad); } .scroll { overflow: auto; max-height: 480px; }
table { border-collapse: collapse; font-size: 12.5px; } th, td { border: 1px solid var(--line); padding: 3px 8px; }
th { text-align: left; }
thead th { position: sticky; top: 0; background: var(--code); }
iframe { width: 100%; height: 320px; border: 1px solid var(--line); border-radius: 6px; resize: vertical; background: #fff; }
img { max-width: 100%; } .k { color: light-dark(#0b4fa8, #7ab7ff); font-weight: 600; } .s { color: light-dark(#1a6b2f, #8fd6a2); }
.n { color: light-dark(#8a3b00, #ffb27d); } .c { color: var(--soft); font-style: italic; }
"""
_IMAGE = re.compile(r"data:image/(?:png|jpeg|gif);base64,[A-Za-z0-9+/=]+\Z")
_TAG = re.compile(r"<[^>]*>")
_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_SQL_WORDS = (
    "add all alter and any as asc between by cache case cast create cross database databases delete desc describe distinct drop "
    "else end except exists explain false from full function group having if in inner insert intersect into is join lateral left "
    "like limit merge not null on or order outer over overwrite partition qualify replace right schema select semi set show "
    "table tables temp temporary then true truncate union update use using values view when where window with"
)
_STRINGS = r"\"\"\"[\s\S]*?(?:\"\"\"|\Z)|'''[\s\S]*?(?:'''|\Z)|\"(?:\\.|[^\"\\\n])*\"?|'(?:\\.|[^'\\\n])*'?"


def _tokens(comment: str, words: Sequence[str], flags: re.RegexFlag) -> re.Pattern[str]:
    keyword = rf"(?<![\w.])(?:{'|'.join(words)})(?!\w)"
    return re.compile(rf"(?P<c>{comment}[^\n]*)|(?P<s>{_STRINGS})|(?P<n>(?<!\w)\d[\w.]*)|(?P<k>{keyword})", flags)


_LANGUAGES = {
    "python": _tokens("#", kwlist, re.NOFLAG),
    "sql": _tokens("--", _SQL_WORDS.split(), re.IGNORECASE),
}


def notebook_page(name: str, about: str, cells: list[NotebookCell], *, model: str) -> str:
    """`about`: the line below the name. `model`: see notebookmodel.py; a block of data, which no browser runs."""
    head = (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="referrer" content="no-referrer">'
        f"<title>{escape(name)}</title><style>{_STYLE}</style></head><body>"
        f'<h1 class="notebook">{escape(name)}</h1><p class="soft">{escape(about)}</p>'
    )
    parts = [head]
    size = 0
    for cell in cells:
        shown = "".join(_cell(cell, results=size < MAX_PAGE))
        size += len(shown)
        parts.append(shown)
    parts.append(f"<script type=\"text/plain\">var __DATABRICKS_NOTEBOOK_MODEL = '{model}';</script></body></html>")
    return "".join(parts)


def _cell(cell: NotebookCell, *, results: bool) -> Iterator[str]:
    note = cell.language == "markdown" and any(each.get("isHtml") for each in cell.results)
    yield f'<section id="cell-{cell.number + 1}">'
    if cell.title:
        yield f'<h2 class="title">{escape(cell.title)}</h2>'
    if not note:
        yield f'<pre class="code">{highlighted(cell.source, cell.language)}</pre>'
        yield f'<p class="soft">{escape(_about(cell))}</p>'
    for each in cell.results if results else ():
        yield f'<div class="output">{_note(each) if note else _result(each)}</div>'
    cut = cell.cut if results else "The page is too large: this cell's output was left out. runs/cells has it."
    if cut:
        yield f'<p class="soft">{escape(cut)}</p>'
    yield "</section>"


def _about(cell: NotebookCell) -> str:
    took = f", {(cell.end_time - cell.start_time) / 1000:.1f} s" if cell.end_time and cell.start_time else ""
    widgets = "".join(f", {name} = {value}" for name, value in cell.widgets.items())
    return f"{cell.state.capitalize()}{took}{widgets}"


def highlighted(source: str, language: str) -> str:
    """Code as HTML, with its keywords, texts, numbers and comments marked."""
    if (tokens := _LANGUAGES.get(language)) is None:
        return escape(source)
    parts, at = [], 0
    for found in tokens.finditer(source):
        parts += [escape(source[at : found.start()]), f'<span class="{found.lastgroup}">{escape(found.group())}</span>']
        at = found.end()
    return "".join([*parts, escape(source[at:])])


def _note(result: Mapping[str, Any]) -> str:
    return safe_html(str(result.get("data", ""))) if result.get("isHtml") else _result(result)


def _result(result: Mapping[str, Any]) -> str:
    kind, data = result.get("resultType"), result.get("data")
    if kind == "table":
        return _table(result)
    if kind == "error":
        text = f"{unescape(_TAG.sub('', str(result.get('summary') or '')))}\n\n{result.get('cause') or ''}"
        return f'<div class="scroll" tabindex="0"><pre class="error">{_text(text)}</pre></div>'
    if kind in ("image", "images"):
        uris = [str(each) for each in result.get("fileNames") or [result.get("fileName")]]
        return "".join(f'<img src="{each}" alt="Plot">' for each in uris if _IMAGE.match(each))
    if result.get("isHtml"):
        policy = f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        return f'<iframe sandbox="" title="HTML output" srcdoc="{escape(policy + str(data))}"></iframe>'
    label = "Notebook exited: " if result.get("exited") else ""
    return f'<div class="scroll" tabindex="0"><pre>{label}{_text(str(data or ""))}</pre></div>'


def _text(text: str) -> str:
    return escape(_ANSI.sub("", text), quote=False)


def _table(result: Mapping[str, Any]) -> str:
    heads = "".join(f"<th>{escape(str(column.get('name', '')))}</th>" for column in result.get("schema") or [])
    rows = "".join(f"<tr>{''.join(f'<td>{_value(value)}</td>' for value in row)}</tr>" for row in result.get("data") or [])
    more = '<p class="soft">The table is longer: these are its first rows.</p>' if result.get("truncated") else ""
    return f'<div class="scroll" tabindex="0"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>{more}'


def _value(value: Any) -> str:
    return escape(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), quote=False)
