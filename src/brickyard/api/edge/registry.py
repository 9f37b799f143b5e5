"""Operations: everything the server can be asked. Each is declared once; routes, authentication, decoding, OpenAPI and tests
derive from it.

A handler is `async (context, caller, request) -> response struct | bytes | Reply | None`, with the body's pieces as one more
argument if the operation `streams`. Bytes are a JSON body that a service
has already encoded; None is an empty object; a `Reply` is for the few answers that are not JSON or not status 200, and a
`Stream` for streamed ones.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from brickyard.api.edge.decode import Unread
from brickyard.api.edge.dialects import PLAIN, Dialect, Reply
from brickyard.api.edge.forms import form_boundary
from brickyard.api.edge.streaming import Stream
from brickyard.domain.access import ObjectKind, Permission
from brickyard.domain.caller import Caller

if TYPE_CHECKING:
    from brickyard.api.context import ApiContext

BODY_LIMIT = 10 * 1024 * 1024  # bytes, as in the Databricks API


class Auth(Enum):
    """Who may call. USER: anyone with a valid token. AGENT: the agent of the instance named by `request.instance_id`. METRICS:
    anyone with the `metrics_token` of the settings, or everyone if it is not set."""

    USER = "user"
    AGENT = "agent"
    METRICS = "metrics"
    NONE = "none"


class Empty(msgspec.Struct, frozen=True):
    """A request without arguments."""


Answer = msgspec.Struct | bytes | Reply | Stream | None
Handler = Callable[..., Awaitable[Answer]]  # see above
Upload = Callable[["ApiContext", Caller, AsyncIterator[tuple[str, bytes]]], Awaitable[Answer]]  # see `forms.stream_parts`


EVERY = "*"


@dataclass(frozen=True)
class Need:
    """A permission on an object that an operation requires.

    `of` is the request field that names the object; "" if there is only one object; `EVERY` for a list, which shows only the
    objects on which the caller has the permission. For an optional field, the permission is required only if the field is set.
    With `unless`, it is required only where that field is not set.
    """

    permission: Permission
    kind: ObjectKind
    of: str = ""
    unless: str = ""


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One operation of the server.

    `paths`: current clients call the first, the others are aliases. A segment `{name}` matches anything but a slash;
    `{name:path}`, as the last segment, matches everything; both fill the request field of that name. POST, PUT and PATCH read
    the request from a JSON body, other methods from the query; a GET or DELETE of a user may have fields in a JSON body, too.
    """

    name: str  # group.verb; names it in documentation and metrics
    audited_as: str = ""  # its name in the audit log, if that is another: versions of one call have one there
    method: str
    paths: tuple[str, ...]
    handler: Handler
    request: type[msgspec.Struct] = Empty
    response: type[msgspec.Struct] | None = None
    validation: type[msgspec.Struct] | None = None  # the answer to a request with `validate_only`
    unread: Callable[[Any, Sequence[Unread]], msgspec.Struct] | None = (
        None  # adds to that answer what of the request cannot be decoded
    )
    summary: str
    needs: tuple[Need, ...]  # of the caller; empty for operations that are not for users
    auth: Auth = Auth.USER
    dialect: Dialect = PLAIN
    body_limit: int = BODY_LIMIT
    documented: bool = True  # whether it is in the OpenAPI document
    only_reads: bool = False  # changes nothing, although it is a POST
    content_type: str = "application/json"  # of a successful answer
    other_content_type: str = ""  # likewise, where the request chooses between two
    statuses: tuple[int, ...] = (200,)  # of successful answers
    form: Callable[[Mapping[str, bytes]], dict[str, str]] | None = None  # also reads multipart/form-data: parts -> request fields
    logs_in: bool = False  # it checks credentials itself: wrong ones count for the address that they come from
    urlencoded: bool = False  # the body is application/x-www-form-urlencoded
    document: str = ""  # the request field that takes the whole JSON body, whose fields are not fixed
    streams: bool = False  # the handler also gets the body, as it arrives; the request comes from path and query
    upload: Upload | None = None  # accepts multipart/form-data of any size as it arrives, replacing the handler
    with_base_url: bool = False  # the request's `base_url` is the URL to put into the answer (edge/hosts.py)
    compares_base_url: bool = False  # it is the one that the client used: the answer does not repeat it to somebody unknown
    with_source: bool = False  # the request's `source` is where the call comes from (`domain.sources`)
    anywhere: bool = False  # answered whatever IP access lists say, although anybody may ask
    from_headers: Mapping[str, str] = field(default_factory=dict)  # a header (in lower case) -> the field that it sets
    makes_work: bool = False  # for the loops: refused with 429 while they lag (plan/admission.py)
    tells_delivery: bool = False  # the handler learns whether its client got the answer (domain/delivery.py)
    errors: tuple[int, ...] = field(default=())  # statuses to document besides those that every operation has

    @cached_property
    def changes(self) -> bool:
        """Whether calls are logged because they change something. Agents report all the time, so their calls are not. With some
        log-ins the browser comes back by a GET."""
        return (self.method not in ("GET", "HEAD") or self.logs_in) and self.auth is not Auth.AGENT and not self.only_reads

    @cached_property
    def looks(self) -> bool:
        """Whether a user's call only reads the workspace's state: it may wait a little while the server lags."""
        return self.auth is Auth.USER and (self.only_reads or self.method in ("GET", "HEAD"))

    def arrives(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Whether the body of a request with these headers is taken as it arrives, so that its client may be unable to repeat
        it."""
        return self.streams or (self.upload is not None and bool(form_boundary(headers)))

    @cached_property
    def heeds_lists(self) -> bool:
        """Whether it is answered only where IP access lists allow it. Agents keep clusters alive, with tokens of their own."""
        return not self.anywhere and self.auth is not Auth.AGENT

    @cached_property
    def surroundings(self) -> tuple[str, ...]:
        """Request fields that the edge fills, whatever was sent."""
        return (*(("base_url",) if self.with_base_url else ()), *(("source",) if self.with_source else ()))

    @cached_property
    def takes_body(self) -> bool:
        """Whether what the query lacks may be in a JSON body of a GET, where the first example of Databricks' reference and
        several clients have it, or of a DELETE, where MLflow's client and the older CLI have it."""
        return self.method in ("GET", "DELETE") and self.auth is Auth.USER and not self.streams

    @cached_property
    def reads_body(self) -> bool:
        """Whether the request is in the body."""
        return self.method in ("POST", "PUT", "PATCH") and not self.streams
