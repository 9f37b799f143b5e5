"""How operations are declared: in groups that share what their paths begin with, a service, and facts such as the dialect."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from types import UnionType
from typing import Any, Generic, TypedDict, TypeVar, Unpack, cast, get_args

import msgspec

from brickyard.api.context import ApiContext
from brickyard.api.edge.decode import Unread
from brickyard.api.edge.dialects import Dialect
from brickyard.api.edge.registry import Answer, Auth, Empty, Handler, Need, Operation, Upload
from brickyard.domain.access import ObjectKind, Permission
from brickyard.domain.caller import Caller

ADMIN = Need(Permission.ADMIN, ObjectKind.WORKSPACE)
IN_WORKSPACE = Need(Permission.WORKSPACE_ACCESS, ObjectKind.WORKSPACE)

S = TypeVar("S")
R = TypeVar("R", bound=msgspec.Struct)


def on_cluster(permission: Permission, of: str = "cluster_id") -> Need:
    """A permission on the cluster that the request's field `of` names."""
    return Need(permission, ObjectKind.CLUSTER, of)


CAN_ATTACH, CAN_RESTART, CAN_MANAGE = map(on_cluster, (Permission.CAN_ATTACH_TO, Permission.CAN_RESTART, Permission.CAN_MANAGE))


class Facts(TypedDict, total=False):
    """What a declaration may say besides endpoint, handler and summary: see `Operation`. `response` is needed only where the
    handler's annotation does not say it, because the answer is encoded already."""

    name: str
    needs: Need | tuple[Need, ...]
    audited_as: str
    response: type[msgspec.Struct] | None
    validation: type[msgspec.Struct]
    unread: Callable[[Any, Sequence[Unread]], msgspec.Struct]
    auth: Auth
    dialect: Dialect
    body_limit: int
    documented: bool
    only_reads: bool
    content_type: str
    other_content_type: str
    statuses: tuple[int, ...]
    form: Callable[[Mapping[str, bytes]], dict[str, str]]
    logs_in: bool
    urlencoded: bool
    document: str
    upload: Upload
    with_base_url: bool
    compares_base_url: bool
    with_source: bool
    anywhere: bool
    from_headers: Mapping[str, str]
    makes_work: bool
    tells_delivery: bool
    errors: tuple[int, ...]


class Group(Generic[S]):
    """Operations of one service. `facts` hold for each of them, unless its declaration says otherwise.

        pools = Group("instance_pools", lambda ctx: ctx.services.pools, "/api/2.0/instance-pools")
        OPERATIONS = (pools("POST /edit", PoolService.edit, "Change an instance pool", needs=MANAGE), ...)

    A handler is a method of the service, or a function that takes the service first. The next arguments are the caller, the
    request if there is one, and the body's pieces if the body is taken as it arrives. The annotations of the request and of the
    answer are the operation's. The last part of the path is the operation's name, unless `name` is.
    """

    def __init__(self, name: str, service: Callable[[ApiContext], S], /, *prefixes: str, **facts: Unpack[Facts]) -> None:
        self._name = name
        self._service = service
        self._prefixes = prefixes or ("",)
        self._facts = facts

    def __call__(
        self,
        endpoint: str,
        handler: Callable[[S, Caller], Awaitable[Answer]]
        | Callable[[S, Caller, R], Awaitable[Answer]]
        | Callable[[S, Caller, R, AsyncIterator[bytes]], Awaitable[Answer]],
        summary: str,
        **facts: Unpack[Facts],
    ) -> Operation:
        """Declare the operation of an endpoint: method and path, such as `GET /list`."""
        method, _, path = endpoint.partition(" ")
        said = cast("dict[str, Any]", self._facts | facts)  # `Operation` has the same types
        signature = inspect.signature(handler, eval_str=True)
        _service, _caller, *arguments = signature.parameters.values()
        name = said.pop("name", None) or path.strip("/").replace("/", "_").replace("-", "_")
        needs = said.pop("needs")
        response = _response(signature.return_annotation, said.get("validation"))
        return Operation(
            name=f"{self._name}.{name}",
            method=method,
            paths=tuple(prefix + path for prefix in self._prefixes),
            handler=_bound(self._service, handler, takes_request=bool(arguments), takes_body=len(arguments) > 1),
            request=arguments[0].annotation if arguments else Empty,
            summary=summary,
            needs=(needs,) if isinstance(needs, Need) else needs,
            streams=len(arguments) > 1,
            **{"response": response} | said,
        )


def _bound(
    service: Callable[[ApiContext], S], handler: Callable[..., Awaitable[Answer]], *, takes_request: bool, takes_body: bool
) -> Handler:
    if not takes_request:
        return lambda ctx, caller, _request: handler(service(ctx), caller)
    if not takes_body:
        return lambda ctx, caller, request: handler(service(ctx), caller, request)
    return lambda ctx, caller, request, body: handler(service(ctx), caller, request, body)


def _response(annotation: object, validation: type | None) -> type[msgspec.Struct] | None:
    """The struct that a handler returns, if it is one."""
    answers = get_args(annotation) if isinstance(annotation, UnionType) else (annotation,)
    structs = [each for each in answers if isinstance(each, type) and issubclass(each, msgspec.Struct) and each is not validation]
    return structs[0] if structs else None
