"""Markdown to HTML, as far as notes in notebooks use it: headings, paragraphs, emphasis, code, lists, quotes, tables, rules,
links and images. HTML stays as it is. Pure."""

from __future__ import annotations

import html
import re
from collections.abc import Callable

_HEADING = re.compile(r"(#{1,6})\s+(.*?)\s*#*\s*")
_RULE = re.compile(r"\s{0,3}(?:(?:-\s*){3,}|(?:\*\s*){3,}|(?:_\s*){3,})")
_ITEM = re.compile(r"(\s*)([-*+]|\d{1,9}[.)])\s+(.*)")
_DASHES = re.compile(r"\s*\|?(?:\s*:?-+:?\s*\|)+\s*(?::?-+:?)?\s*\|?\s*")
_BLOCK = re.compile(r"\s{0,3}</?[a-zA-Z][^>]*>|\s{0,3}<!--")
_INLINE = re.compile(
    r"""(?P<code>(?P<ticks>`+)(?P<inside>[^`]+)(?P=ticks))
      | (?P<image>!\[(?P<alt>[^\]\n]{0,500})\]\((?P<source>[^()\s]{1,2000})\))
      | (?P<link>\[(?P<text>[^\]\n]{1,500})\]\((?P<target>[^()\s]{1,2000})\))
      | (?P<strong>(?:\*\*|__)(?=\S)(?P<bold>[^*_\n]{1,2000})(?:\*\*|__))
      | (?P<emphasis>(?<!\w)[*_](?=\S)(?P<slanted>[^*_\n]{1,2000})[*_](?!\w))
      | (?P<strike>~~(?P<gone>[^~\n]{1,2000})~~)
      | (?P<bare>&(?!\w{1,31};|\#\d{1,7};)|<(?![a-zA-Z/!]))""",
    re.VERBOSE,
)


def to_html(text: str) -> str:
    """Returns the text as HTML."""
    lines = text.replace("\r\n", "\n").strip("\n").split("\n")
    return "\n".join(_blocks(lines))


def _blocks(lines: list[str]) -> list[str]:
    parts: list[str] = []
    number = 0
    while number < len(lines):
        line = lines[number]
        if not line.strip():
            number += 1
        elif line.lstrip().startswith(("```", "~~~")):
            number = _fence(lines, number, parts)
        elif heading := _HEADING.fullmatch(line.strip()):
            level = len(heading.group(1))
            parts.append(f"<h{level}>{_inline(heading.group(2))}</h{level}>")
            number += 1
        elif _RULE.fullmatch(line):
            parts.append("<hr>")
            number += 1
        elif line.lstrip().startswith(">"):
            end = _while(lines, number, lambda each: each.lstrip().startswith(">"))
            inner = [each.lstrip()[1:].removeprefix(" ") for each in lines[number:end]]
            parts += ["<blockquote>", *_blocks(inner), "</blockquote>"] if _shallow(inner) else [_inline(" ".join(inner))]
            number = end
        elif _ITEM.fullmatch(line):
            end = _while(lines, number, lambda each: bool(each.strip()))
            parts += _list(lines[number:end])
            number = end
        elif "|" in line and number + 1 < len(lines) and _DASHES.fullmatch(lines[number + 1]):
            end = _while(lines, number, lambda each: "|" in each)
            parts.append(_table(lines[number], lines[number + 2 : end]))
            number = end
        else:
            end = number + 1
            while end < len(lines) and lines[end].strip() and not _begins(lines[end]):
                end += 1
            body = _inline("\n".join(lines[number:end]))
            parts.append(body if _BLOCK.match(line) else f"<p>{body}</p>")
            number = end
    return parts


def _shallow(lines: list[str]) -> bool:
    return not any(line.lstrip().startswith(">" * 10) for line in lines)


def _begins(line: str) -> bool:
    """Whether a line ends the paragraph before it."""
    marked = line.lstrip().startswith(("```", "~~~", ">")) or _HEADING.fullmatch(line.strip())
    return bool(marked or _ITEM.fullmatch(line) or _RULE.fullmatch(line))


def _while(lines: list[str], number: int, holds: Callable[[str], bool]) -> int:
    while number < len(lines) and holds(lines[number]):
        number += 1
    return number


def _fence(lines: list[str], number: int, parts: list[str]) -> int:
    mark = lines[number].lstrip()[:3]
    end = number + 1
    while end < len(lines) and not lines[end].lstrip().startswith(mark):
        end += 1
    code = html.escape("\n".join(lines[number + 1 : end]), quote=False)
    parts.append(f"<pre><code>{code}</code></pre>")
    return end + 1


def _list(lines: list[str]) -> list[str]:
    """Items by their indentation; a line that is no item goes on with the one before."""
    parts: list[str] = []
    open_lists: list[tuple[int, str]] = []
    for line in lines:
        item = _ITEM.fullmatch(line)
        if item is None:
            parts.append(_inline(line.strip()))
            continue
        indent, kind = len(item.group(1).expandtabs(4)), "ul" if item.group(2) in "-*+" else "ol"
        while open_lists and (open_lists[-1][0] > indent or (open_lists[-1][0] == indent and open_lists[-1][1] != kind)):
            parts.append(f"</li></{open_lists.pop()[1]}>")
        if open_lists and open_lists[-1][0] == indent:
            parts.append("</li>")
        else:
            open_lists.append((indent, kind))
            parts.append(f"<{kind}>")
        parts.append(f"<li>{_inline(item.group(3))}")
    return [*parts, *(f"</li></{kind}>" for _, kind in reversed(open_lists))]


def _table(head: str, rows: list[str]) -> str:
    def cells(line: str, tag: str) -> str:
        return "".join(f"<{tag}>{_inline(cell.strip())}</{tag}>" for cell in line.strip().strip("|").split("|"))

    body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows)
    return f"<table><thead><tr>{cells(head, 'th')}</tr></thead><tbody>{body}</tbody></table>"


def _inline(text: str) -> str:
    return _INLINE.sub(_mark, text)


def _mark(match: re.Match[str]) -> str:
    found = match.groupdict()
    if found["code"]:
        return f"<code>{html.escape(found['inside'].strip(), quote=False)}</code>"
    if found["image"]:
        return f'<img src="{html.escape(found["source"])}" alt="{html.escape(found["alt"])}">'
    if found["link"]:
        return f'<a href="{html.escape(found["target"])}">{_inline(found["text"])}</a>'
    for name, inside, tag in (("strong", "bold", "strong"), ("emphasis", "slanted", "em"), ("strike", "gone", "del")):
        if found[name]:
            return f"<{tag}>{_inline(found[inside])}</{tag}>"
    return "&amp;" if match.group() == "&" else "&lt;"
