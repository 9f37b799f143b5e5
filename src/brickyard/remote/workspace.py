"""The workspace elsewhere, as this process calls it: over HTTP, with the token of a file, following no redirect."""

from __future__ import annotations

import ipaddress
import urllib.request
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import msgspec
from yarl import URL

from brickyard import __version__
from brickyard.domain.errors import ApiError, PermissionDenied, TemporarilyUnavailable
from brickyard.gateway.connections import Connections
from brickyard.remote import passing
from brickyard.remote.lacking import lacking
from brickyard.remote.token import TokenFile, TokenTrouble

if TYPE_CHECKING:
    import aiohttp

READ_S = 120.0  # how long the workspace may send nothing
MAX_DOCUMENT = 16 << 20  # bytes of an answer that we read ourselves
_AGENT = f"brickyard-ui/{__version__}"
_ME = "/api/2.0/preview/scim/v2/Me"
_REDIRECTS = (301, 302, 303, 307, 308)
_OWN_HEADERS = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")


class NoWorkspace(ApiError):
    """What answers is no workspace."""

    error_code = "BAD_GATEWAY"
    http_status = 502


class WrongUrl(ValueError):
    """Why a URL cannot be that of a workspace."""


class About(NamedTuple):
    """Whose token it is, and what of `lacking.ADDITIONS` the workspace lacks."""

    user_name: str
    user_id: str
    lacks: tuple[str, ...]


def workspace_url(given: str, *, plain_http: bool = False) -> str:
    """The URL without a path, as `https://HOST[:PORT]`. Raises WrongUrl."""
    try:
        parts = urlsplit(given if "://" in given else f"https://{given}")
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise WrongUrl(f"{given} is no URL: {error}.") from error
    if parts.scheme not in ("http", "https") or not host or not host.isascii():
        raise WrongUrl(f"{given} is not the https:// URL of a workspace.")
    if parts.username is not None or parts.password is not None:
        raise WrongUrl("the URL must not contain a user or a password: the token is in --token-file.")
    if parts.scheme == "http" and not plain_http and not _is_here(host):
        raise WrongUrl(f"{given} would send the token unencrypted. Use https, or add --plain-http.")
    name = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{name}:{port}" if port else f"{parts.scheme}://{name}"


class RemoteWorkspace:
    """One per process. Every call reads the token anew, if its file has changed."""

    def __init__(self, url: str, token: TokenFile) -> None:
        self.url = url
        self._token = token
        self._connections = Connections(read_s=READ_S)

    async def close(self) -> None:
        """Closes all connections."""
        await self._connections.close()

    async def about(self) -> About:
        """Asks who the token's owner is, and what the workspace can do. Raises ApiError."""
        me = await self._document(_ME, json_only=True)
        name = me.get("userName") if isinstance(me, dict) else None
        if not isinstance(name, str):
            raise self._no_workspace("it does not say whose token that is")
        return About(name, str(me.get("id") or ""), lacking(await self._document("/openapi.json", json_only=False)))

    @asynccontextmanager
    async def call(
        self, method: str, raw_path: str, query: str, headers: Iterable[tuple[bytes, bytes]], body: bytes
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Makes a call with the token; `raw_path` and `query` are percent-encoded. Raises ApiError, also for answers that concern
        the token and not its user: 401, and redirects."""
        import aiohttp  # noqa: PLC0415 - takes long to load; see nodes/client.py

        try:
            token = self._token.read()
        except TokenTrouble as error:
            raise PermissionDenied(str(error)) from error
        sent = passing.request_headers(headers, token=token, agent=_AGENT)
        target = self.url + raw_path + (f"?{query}" if query else "")
        with self._connections.to("", self.url) as session:
            asking = session.request(
                method, URL(target, encoded=True), headers=sent, data=body or None, allow_redirects=False,
                skip_auto_headers=_OWN_HEADERS, proxy=_proxy(self.url),
            )  # fmt: skip
            try:
                response = await asking
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise TemporarilyUnavailable(f"The workspace {self.url} cannot be reached: {_why(error)}.") from error
            try:
                if response.status == 401:
                    said = await _message(response)
                    raise PermissionDenied(
                        f"The workspace {self.url} refuses the token of {self._token.path.name} ({said or 'status 401'}). "
                        "Write another one into the file: it is read again."
                    )
                if response.status in _REDIRECTS:
                    raise self._no_workspace("it redirects, which an API does not")
                yield response
            finally:
                response.release()

    async def _document(self, path: str, *, json_only: bool) -> Any:
        """An answer as JSON. Without `json_only`, None for an answer that is none. Raises ApiError."""
        headers = [(b"accept", b"application/json"), (b"accept-encoding", b"identity")]
        try:
            async with self.call("GET", path, "", headers, b"") as response:
                return await self._json(response, path)
        except (NoWorkspace, PermissionDenied):
            if json_only:
                raise
            return None

    async def _json(self, response: aiohttp.ClientResponse, path: str) -> Any:
        if response.status == 403:
            said = await _message(response)
            raise PermissionDenied(f"The workspace {self.url} refuses the token: {said or 'status 403'}.")
        if response.status >= 500:
            raise TemporarilyUnavailable(f"The workspace {self.url} has a problem: {path} has status {response.status}.")
        if response.status != 200:
            raise self._no_workspace(f"{path} has status {response.status}")
        try:
            return msgspec.json.decode(await _read(response))
        except ValueError as error:  # of msgspec too
            raise self._no_workspace(f"{path} is no JSON") from error

    def _no_workspace(self, why: str) -> NoWorkspace:
        return NoWorkspace(f"{self.url} does not answer as a Databricks workspace does: {why}. Check the URL.")


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """The body. Raises ValueError if it is too large or breaks off."""
    import aiohttp  # noqa: PLC0415 - as above

    parts, size = [], 0
    try:
        async for part in response.content.iter_any():
            parts.append(part)
            size += len(part)
            if size > MAX_DOCUMENT:
                raise ValueError("the answer is too large")
    except (aiohttp.ClientError, TimeoutError) as error:
        raise ValueError("the answer breaks off") from error
    return b"".join(parts)


async def _message(response: aiohttp.ClientResponse) -> str:
    """What an error says; "" if it says nothing that we understand."""
    try:
        said = msgspec.json.decode(await _read(response))
    except ValueError:  # of msgspec too
        return ""
    message = said.get("message") or said.get("detail") if isinstance(said, dict) else None
    return message[:300].strip().rstrip(".") if isinstance(message, str) else ""


def _why(error: Exception) -> str:
    inner = getattr(error, "certificate_error", None) or getattr(error, "os_error", None) or error
    if isinstance(error, TimeoutError):
        return "it does not answer in time"
    if verify := getattr(inner, "verify_message", ""):
        return f"its certificate is not trusted ({verify})"
    return str(getattr(inner, "strerror", None) or inner).rstrip(".") or type(error).__name__


def _proxy(url: str) -> str | None:
    """The HTTP proxy of the environment for this URL (https_proxy, no_proxy). What is on this machine needs none."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if _is_here(host) or urllib.request.proxy_bypass(host):
        return None
    return urllib.request.getproxies().get(parts.scheme)


def _is_here(host: str) -> bool:
    """Whether the host is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
