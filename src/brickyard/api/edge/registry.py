"""Operations: what the server can be asked. Declared once, each gives its routes, authentication, decoding, OpenAPI and tests.

A handler is `async (context, caller, request) -> response struct | bytes | Reply | None`. Bytes are a JSON body that a service
has made already; None is an empty object; a `Reply` is for the few answers that are neither JSON nor 200, and a
`Stream` for those that go on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

import msgspec

from brickyard.api.edge.dialects import PLAIN, Dialect, Reply
from brickyard.api.edge.streaming import Stream
from brickyard.domain.access import ObjectKind, Permission
from brickyard.services.caller import Caller

if TYPE_CHECKING:
    from brickyard.api.context import ApiContext

BODY_LIMIT = 10 * 1024 * 1024  # bytes, as the Databricks API has it


class Auth(Enum):
    """Who may call. USER: whoever has a valid token. AGENT: the agent of the instance named by `request.instance_id`. METRICS:
    whoever has the setting `metrics_token`, and everybody where it is not set."""

    USER = "user"
    AGENT = "agent"
    METRICS = "metrics"
    NONE = "none"


class Empty(msgspec.Struct, frozen=True):
    """A request without arguments."""


Answer = msgspec.Struct | bytes | Reply | Stream | None
Handler = Callable[["ApiContext", Caller, Any], Awaitable[Answer]]
Upload = Callable[["ApiContext", Caller, AsyncIterator[tuple[str, bytes]]], Awaitable[Answer]]  # see `forms.stream_parts`


EVERY = "*"


@dataclass(frozen=True)
class Need:
    """A permission that an operation asks for, on an object.

    `of` is the field of the request that names the object; "" where there is only one, and `EVERY` for a list, which shows those
    objects on which the caller has the permission. What an optional field names is needed where it is given.
    """

    permission: Permission
    kind: ObjectKind
    of: str = ""


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One thing that the server does.

    `paths`: the first is the one that current clients call, the others are aliases. A segment `{name}` matches anything but a
    slash and `{name:path}`, as the last one, everything; both become the field of that name of the request. POST, PUT and
    PATCH read the request from a JSON body, the others from the query.
    """

    name: str  # group.verb; names it in documentation and metrics
    method: str
    paths: tuple[str, ...]
    handler: Handler
    request: type[msgspec.Struct] = Empty
    response: type[msgspec.Struct] | None = None
    summary: str
    needs: tuple[Need, ...]  # of the caller; none for operations that are not for users
    auth: Auth = Auth.USER
    dialect: Dialect = PLAIN
    body_limit: int = BODY_LIMIT
    documented: bool = True  # is in the OpenAPI document
    only_reads: bool = False  # changes nothing, although it is a POST
    content_type: str = "application/json"  # of a successful answer
    form: Callable[[Mapping[str, bytes]], dict[str, str]] | None = None  # also reads multipart/form-data: parts -> request fields
    upload: Upload | None = None  # takes multipart/form-data of any size as it arrives, in the handler's place
    with_base_url: bool = False  # the request's `base_url` is the address at which the client reached us
    from_headers: Mapping[str, str] = field(default_factory=dict)  # a header (in small letters) -> the field that it is read into
    makes_work: bool = False  # for the loops: refused with 429 while they are behind (plan/admission.py)
    errors: tuple[int, ...] = field(default=())  # statuses to document beside those that every operation has

    @property
    def changes(self) -> bool:
        """Whether a call is one of those that the log has a line of. Agents report all the time: theirs are not."""
        return self.method not in ("GET", "HEAD") and self.auth is not Auth.AGENT and not self.only_reads

    @property
    def looks(self) -> bool:
        """Whether a user's call only reads the workspace's state: such a call may wait a little while work is late."""
        return self.auth is Auth.USER and (self.only_reads or self.method in ("GET", "HEAD"))

    @property
    def reads_body(self) -> bool:
        return self.method in ("POST", "PUT", "PATCH")
