"""Generates the OpenAPI document from the registry."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from brickyard import __version__
from brickyard.api.context import ApiContext
from brickyard.api.edge.decode import query_keys
from brickyard.api.edge.dialects import TEXT, Reply
from brickyard.api.edge.registry import Auth, Empty, Operation
from brickyard.domain.caller import Caller

PATH = "/openapi.json"
_OF_EVERY_REQUEST = frozenset({"content-length", "user-agent"})  # headers that clients set themselves
_TEMPLATE = "#/components/schemas/{name}"
_REFUSALS = {
    400: "The request is invalid or the cluster's state does not allow it; see the message",
    401: "No valid token was sent",
    403: "The caller may not do that",
    404: "Not found",
    409: "Something is at that path already, the cluster's state does not allow it, or somebody else was faster",
    412: "The file was changed after the time in If-Unmodified-Since",
    413: "The body is too large",
    416: "The range begins after the end of the file",
    500: "Temporarily unavailable, or a server error; see the message",
    422: "The request cannot be met; the details list every problem",
    429: "Too many requests: retry after the time in Retry-After",
    503: "Temporarily unavailable: retry after the time in Retry-After",
    504: "It has not ended in the time that the client wanted to wait, and goes on",
    507: "The disk is full, or the workspace's files exceed their limit",
}


def openapi_operation(operations: Iterable[Operation]) -> Operation:
    """The operation that serves the document of `operations` and of itself. The document is built on first request."""
    declared = tuple(operations)

    async def serve(_context: ApiContext, _caller: Caller, _request: Empty) -> Reply:
        return Reply(body=encoded())

    @functools.cache
    def encoded() -> bytes:
        return msgspec.json.encode(document((*declared, itself)))

    itself = Operation(
        name="openapi.get",
        method="GET",
        paths=(PATH,),
        handler=serve,
        summary="This document",
        needs=(),
        auth=Auth.NONE,
        response=Empty,
    )
    return itself


def document(operations: Iterable[Operation]) -> dict[str, Any]:
    """OpenAPI 3.1 for the documented operations. An operation's description lists the aliases of its path."""
    shown = [operation for operation in operations if operation.documented]
    kinds = (kind for operation in shown for kind in (operation.request, operation.response, operation.validation))
    types = {kind for kind in kinds if kind is not None} - {Empty}
    ordered = sorted(types, key=lambda kind: (kind.__name__, kind.__module__))
    references, schemas = msgspec.json.schema_components(ordered, ref_template=_TEMPLATE)
    known = dict(zip(ordered, references, strict=True))
    for each in (operation.dialect for operation in shown):
        fields = each.properties
        schemas[each.name] = {"title": each.name, "type": "object", "properties": fields, "required": sorted(fields)}
    paths: dict[str, dict[str, Any]] = {}
    for operation in shown:
        path = re.sub(r"{(\w+):path}", r"{\1}", operation.paths[0])
        paths.setdefault(path, {})[operation.method.lower()] = _described(operation, known, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Brickyard",
            "version": __version__,
            "description": "The Databricks compute API, on machines of your own. docs/parity.md says what is different.",
        },
        "paths": paths,
        "components": {
            "schemas": {name: _tidied(schema) for name, schema in sorted(schemas.items())},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _described(operation: Operation, known: Mapping[type, Any], schemas: Mapping[str, Any]) -> dict[str, Any]:
    summary, *others = operation.summary, *operation.paths[1:]
    answer: dict[str, Any] = known.get(operation.response or Empty, {"type": "object"})
    if operation.validation is not None:
        answer = {"anyOf": [answer, known[operation.validation]]}
    if operation.content_type != "application/json":
        answer = TEXT
    described: dict[str, Any] = {
        "operationId": operation.name,
        "tags": [operation.name.partition(".")[0]],
        "summary": summary,
        "responses": {
            **{str(status): _success(operation, status, answer) for status in operation.statuses},
            **{str(status): _refusal(operation, status) for status in _statuses(operation)},
        },
    }
    if others:
        described["description"] = f"Also at {', '.join(others)}."
    if operation.auth is Auth.NONE:
        described["security"] = []
    in_path = set(re.findall(r"{(\w+)(?::path)?}", operation.paths[0]))
    parameters = [{"name": name, "in": "path", "required": True, "schema": TEXT} for name in sorted(in_path)]
    if operation.streams:
        described["requestBody"] = {"content": {"application/octet-stream": {"schema": {}}}}
    elsewhere = in_path | set(operation.from_headers.values()) | set(operation.surroundings)
    if not operation.reads_body:
        parameters += _query(operation, without=elsewhere)
        headers = (name for name in operation.from_headers if name not in _OF_EVERY_REQUEST)
        parameters += [{"name": name, "in": "header", "required": False, "schema": TEXT} for name in headers]
    elif operation.request is not Empty:
        described["requestBody"] = {
            "required": True,
            "content": {
                "application/x-www-form-urlencoded" if operation.urlencoded else "application/json": {
                    "schema": _body(operation, known, schemas, elsewhere)
                }
            },
        }
    if parameters:
        described["parameters"] = parameters
    return described


def _body(operation: Operation, known: Mapping[type, Any], schemas: Mapping[str, Any], elsewhere: set[str]) -> dict[str, Any]:
    """The schema of the body: the request without what comes from path and headers."""
    reference: dict[str, Any] = known[operation.request]
    if operation.document:
        return {"type": "object"}
    if not elsewhere:
        return reference
    whole = schemas[reference["$ref"].rpartition("/")[2]]
    return {
        "type": "object",
        "properties": {name: schema for name, schema in whole["properties"].items() if name not in elsewhere},
        "required": [name for name in whole.get("required", ()) if name not in elsewhere],
    }


def _query(operation: Operation, *, without: set[str]) -> list[dict[str, Any]]:
    required = {field.encode_name for field in msgspec.structs.fields(operation.request) if field.required}
    parameters = []
    for name, (kind, repeated) in query_keys(operation.request).items():
        if name in without:
            continue
        schema = _inlined(kind)
        parameter: dict[str, Any] = {"name": name, "in": "query", "required": name in required}
        parameter["schema"] = {"type": "array", "items": schema} if repeated else schema
        parameters.append(parameter)
    return parameters


def _inlined(kind: Any) -> dict[str, Any]:
    """The inline schema of a query parameter: a plain type or an enum."""
    (schema,), parts = msgspec.json.schema_components([kind], ref_template=_TEMPLATE)
    found: dict[str, Any] = next(iter(parts.values())) if parts else schema
    return _tidied(found)


def _statuses(operation: Operation) -> list[int]:
    statuses = {400, *operation.errors}
    if operation.auth is Auth.USER:
        statuses |= {401, 403, 429}
    if operation.reads_body:
        statuses.add(413)
    return sorted(statuses)


def _success(operation: Operation, status: int, answer: Mapping[str, Any]) -> dict[str, Any]:
    if status == 204:
        return {"description": "Done"}
    content = {operation.content_type: {"schema": answer}}
    if operation.other_content_type:
        content[operation.other_content_type] = {"schema": TEXT}
    return {"description": "Done", "content": content}


def _refusal(operation: Operation, status: int) -> dict[str, Any]:
    return {
        "description": _REFUSALS[status],
        "content": {"application/json": {"schema": {"$ref": _TEMPLATE.format(name=operation.dialect.name)}}},
    }


def _tidied(schema: dict[str, Any]) -> dict[str, Any]:
    """Removes the source's indentation from the description."""
    if text := schema.get("description"):
        return schema | {"description": inspect.cleandoc(text)}
    return schema
