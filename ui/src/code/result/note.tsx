import { createElement, type ReactNode } from "react";

const TAGS = new Set(
  "p br hr blockquote pre code em strong b i u s del sub sup kbd span div a img h1 h2 h3 h4 h5 h6 ul ol li dl dt dd table thead tbody tr th td".split(
    " ",
  ),
);
const SILENT = new Set([
  "script",
  "style",
  "template",
  "noscript",
  "iframe",
  "object",
  "svg",
  "math",
  "title",
  "textarea",
]);
const EMPTY = new Set(["br", "hr", "img"]);
const LINK = /^(https?:|mailto:|#)/i;
const DEEPEST = 100;

/** A note of a notebook: Markdown that has become HTML, and may contain any. The elements of a text are shown, and nothing else of it. */
export function Note({ html }: { html: string }) {
  const parsed = new DOMParser().parseFromString(html, "text/html"); // it is never shown, and loads and runs nothing
  return <div className="note">{[...parsed.body.childNodes].map((node, at) => shown(node, at, 0))}</div>;
}

function shown(node: Node, key: number, depth: number): ReactNode {
  if (node.nodeType === Node.TEXT_NODE) return node.textContent;
  if (!(node instanceof Element) && node.nodeType !== Node.ELEMENT_NODE) return null;
  const element = node as Element;
  const tag = element.localName;
  if (SILENT.has(tag) || depth > DEEPEST) return null;
  const inside = EMPTY.has(tag) ? undefined : [...element.childNodes].map((each, at) => shown(each, at, depth + 1));
  if (!TAGS.has(tag)) return inside ?? null;
  return createElement(headed(tag), { key, ...attributes(element, tag) }, inside?.length ? inside : undefined);
}

/** The page has a heading of its own above the note's. */
const headed = (tag: string) => (/^h[1-5]$/.test(tag) ? `h${Number(tag[1]) + 1}` : tag);

function attributes(element: Element, tag: string): Record<string, unknown> {
  const target = element.getAttribute("href") ?? "";
  if (tag === "a" && LINK.test(target)) return { href: target, rel: "noopener noreferrer nofollow", target: "_blank" };
  if (tag === "img") {
    const source = element.getAttribute("src") ?? "";
    return { alt: element.getAttribute("alt") ?? "", ...(source.startsWith("data:image/") ? { src: source } : {}) };
  }
  if (tag === "pre") return { tabIndex: 0 };
  return {};
}
