"""The web page for clusters: one document, whose scripts call the API with the browser's session."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterator, Mapping
from urllib.parse import quote

import msgspec

from brickyard.api.browser.html import PAGES, page, redirect
from brickyard.api.edge.dialects import Reply
from brickyard.api.edge.group import Group
from brickyard.api.edge.registry import Auth, Operation
from brickyard.api.webpage import WebPage
from brickyard.domain.caller import Caller
from brickyard.domain.errors import EndpointNotFound
from brickyard.machine.installing import in_checkout

PATHS = (
    "/",
    "/compute",
    "/compute/create",
    "/compute/clusters/{cluster_id}",
    "/compute/clusters/{cluster_id}/edit",
    "/admin",
    "/settings",
    "/spend",
    "/files",
    "/workspace/notebook",
    "/catalog",
    "/schedules",
    "/jobs",
    "/jobs/{job_id}",
    "/jobs/{job_id}/edit",
    "/jobs/runs",
    "/jobs/runs/{run_id}",
    "/jobs/{job_id}/runs/{run_id}",
    "/help/{topic}",
    "/compute/pools/{pool_id}",
    "/compute/pools/{pool_id}/edit",
    "/compute/policies/{policy_id}",
    "/compute/policies/{policy_id}/edit",
    "/compute/warehouses/{warehouse_id}",
    "/compute/warehouses/{warehouse_id}/edit",
    "/sql/editor",
    "/sql/history",
)
# What people type, and the addresses of lists in other versions of the page: where they lead to, and the id they can end with.
_LISTS = {
    "clusters": ("/compute", "cluster_id"),
    "pools": ("/compute?tab=pools", "pool_id"),
    "policies": ("/compute?tab=policies", "policy_id"),
    "warehouses": ("/compute?tab=sql", "warehouse_id"),
}
# Addresses of Databricks' pages, which its clients print (the CLI's `bundle summary`, `bundle run` and `bundle open`), and ours.
_LINKS = {
    "warehouse": ("/sql/warehouses/{warehouse_id}", "/compute/warehouses/{warehouse_id}"),
    "pool": ("/compute/instance-pools/{pool_id}", "/compute/pools/{pool_id}"),
    "catalog": ("/explore/data/{catalog}", "/catalog?catalog={catalog}"),
    "schema": ("/explore/data/{catalog}/{schema}", "/catalog?catalog={catalog}&schema={schema}"),
    "table": ("/explore/data/{catalog}/{schema}/{table}", "/catalog?catalog={catalog}&schema={schema}&table={table}"),
    "volume": ("/explore/data/volumes/{catalog}/{schema}/{volume}", "/files?path=/Volumes/{catalog}/{schema}/{volume}"),
}
ASSET = "ui.asset"  # the operation of its files
_NONCE = "__STYLE_NONCE__"
_YEAR_S = 365 * 86_400


class AskPage(msgspec.Struct, frozen=True, kw_only=True):
    cluster_id: str = ""
    pool_id: str = ""  # or "create"
    policy_id: str = ""  # likewise
    warehouse_id: str = ""  # likewise
    job_id: str = ""  # likewise
    run_id: str = ""
    catalog: str = ""
    schema: str = ""
    table: str = ""
    volume: str = ""
    topic: str = ""  # a page of docs/


class AskAsset(msgspec.Struct, frozen=True, kw_only=True):
    file: str = ""
    accept_encoding: str = ""


async def _page(web_page: WebPage, caller: Caller, request: AskPage) -> Reply:
    return await document(web_page)


def _leading(of: str) -> Callable[[WebPage, Caller, AskPage], Awaitable[Reply]]:
    """The operation that leads from a list's short address to its page."""
    name = _LISTS[of][1]

    async def answer(web_page: WebPage, caller: Caller, request: AskPage) -> Reply:
        return lead(of, getattr(request, name))

    return answer


def lead(of: str, object_id: str) -> Reply:
    """Leads to a list, or to the page of an object in it."""
    return redirect(f"/compute/{of}/{quote(object_id, safe='')}" if object_id else _LISTS[of][0])


def _following(link: str) -> Callable[[WebPage, Caller, AskPage], Awaitable[Reply]]:
    """The operation that leads from an address of Databricks' to ours."""

    async def answer(web_page: WebPage, caller: Caller, request: AskPage) -> Reply:
        return follow(link, msgspec.structs.asdict(request))

    return answer


def follow(link: str, values: Mapping[str, str]) -> Reply:
    """Leads to the page that an address of Databricks' means here."""
    return redirect(_LINKS[link][1].format_map({name: quote(value, safe="") for name, value in values.items()}))


def led(operation: str, values: Mapping[str, str]) -> Reply | None:
    """What an operation that only leads elsewhere answers; None if it is another one. `values`: of its path."""
    if (link := operation.removeprefix(_FOLLOWS)) in _LINKS and link != operation:
        return follow(link, values)
    of = operation.removeprefix(_LEADS)
    return lead(of, next(iter(values.values()), "")) if of in _LISTS and of != operation else None


async def _asset(web_page: WebPage, caller: Caller, request: AskAsset) -> Reply:
    return await file(web_page, request.file, request.accept_encoding)


def _missing() -> Reply:
    """In place of a page that was not built. Only a checkout builds it later."""
    if not in_checkout():
        return page(
            "The web page is missing",
            "<p>This package of Brickyard was built without its web page. Install one that has it. The SDK, the CLI and the API "
            "do not need the page.</p>",
            status=503,
        )
    return page(
        "The web page is not built yet",
        "<p>The server works; only its web page is missing. After <code>./dev quickstart</code> it is built in the "
        "background, which takes about a minute. This page looks for it every few seconds.</p>"
        "<p><code>./dev build-ui</code> builds it, which needs an npm registry, and says what is wrong if it "
        "cannot. No restart is needed. The SDK, the CLI and the API do not need the page.</p>",
        status=503,
        more=(("refresh", "5"),),
    )


async def document(web_page: WebPage) -> Reply:
    """The page, the same for everybody: it leads to the log-in page itself, which knows the whole address that was opened."""
    text = await asyncio.to_thread(web_page.index)
    if text is None:
        return _missing()
    nonce = secrets.token_urlsafe(16)
    return Reply(
        body=text.replace(_NONCE, nonce).encode(),
        content_type="text/html; charset=utf-8",
        headers=(
            ("content-security-policy", _policy(nonce)),
            ("x-frame-options", "DENY"),
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "same-origin"),
            ("cache-control", "no-store"),
        ),
    )


async def file(web_page: WebPage, name: str, accept_encoding: str) -> Reply:
    """A file of the page. Raises EndpointNotFound."""
    found = await asyncio.to_thread(web_page.asset, name, accept_encoding)
    if found is None:
        raise EndpointNotFound(f"There is no file /assets/{name[:200]}. Load the page again.")
    headers = [
        ("cache-control", f"public, max-age={_YEAR_S}, immutable"),
        ("vary", "accept-encoding"),
        ("x-content-type-options", "nosniff"),
    ]
    if found.encoding:
        headers.append(("content-encoding", found.encoding))
    return Reply(body=found.body, content_type=found.content_type, headers=tuple(headers))


def _policy(nonce: str) -> str:
    """No code but the page's own files. The components' library writes a few style elements, which carry the nonce. Frames hold
    the Spark UI, sandboxed; images can also be results of a command."""
    return (
        f"default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; img-src 'self' data:; font-src 'self'; "
        "connect-src 'self'; frame-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    )


_PAGES = Group("ui", lambda ctx: ctx.web_page, *PATHS, needs=(), auth=Auth.NONE, dialect=PAGES, documented=False)
_ASSETS = Group("ui", lambda ctx: ctx.web_page, "/assets", needs=(), auth=Auth.NONE, dialect=PAGES, documented=False)
_LEADS = "ui.to_"
_FOLLOWS = "ui.link_"


def _leads() -> Iterator[Operation]:
    for of, (_, field) in _LISTS.items():
        paths = (f"/{of}", f"/compute/{of}", f"/{of}/{{{field}}}")
        group = Group("ui", lambda ctx: ctx.web_page, *paths, needs=(), auth=Auth.NONE, dialect=PAGES, documented=False)
        yield group("GET", _leading(of), f"Leads to the page of {of}", name=f"to_{of}")
    for link, (path, _) in _LINKS.items():
        group = Group("ui", lambda ctx: ctx.web_page, path, needs=(), auth=Auth.NONE, dialect=PAGES, documented=False)
        yield group("GET", _following(link), f"Leads from Databricks' address of a {link}", name=f"link_{link}")


OPERATIONS: tuple[Operation, ...] = (
    _PAGES("GET", _page, "The web page", name="page"),
    _ASSETS("GET /{file}", _asset, "A file of the web page", name="asset", from_headers={"accept-encoding": "accept_encoding"}),
    *_leads(),
)
