"""Operations that agents call; see `domain.node` for the protocol. Not for users, so not in the OpenAPI document."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from brickyard.api.context import ApiContext
from brickyard.api.edge.dialects import PLAIN, Reply
from brickyard.api.edge.group import Group
from brickyard.api.edge.registry import Auth, Operation
from brickyard.domain.caller import Caller
from brickyard.domain.errors import DatabaseTrouble
from brickyard.domain.node import (
    AskNotebook,
    AskSecrets,
    AssignmentReply,
    NotebookReply,
    Poll,
    SecretsReply,
    StatusReply,
    StatusReport,
)
from brickyard.domain.spec import Wire

REPORT_LIMIT = 1024 * 1024  # bytes: a report is read before its sender is authenticated


class AssignmentQuery(Wire, frozen=True, kw_only=True):
    """An agent's long poll: answered once the assignment's version differs from `have`, or after `wait` seconds."""

    instance_id: str
    have: int = 0
    wait: float = 0.0
    same: bool = False  # whether an assignment that the agent has may be left out of the answer


async def _status(ctx: ApiContext, caller: Caller, request: StatusReport) -> StatusReply | Reply:
    try:
        return await ctx.agents.report(request)
    except DatabaseTrouble as error:
        return _not_now(ctx, request.instance_id, error)


async def _assignment(ctx: ApiContext, caller: Caller, request: AssignmentQuery) -> AssignmentReply | Reply:
    try:
        return await ctx.agents.assignment(request.instance_id, request.have, request.wait, same=request.same)
    except DatabaseTrouble as error:
        return _not_now(ctx, request.instance_id, error)


async def _poll(ctx: ApiContext, caller: Caller, request: Poll) -> AssignmentReply | Reply:
    try:
        return await ctx.agents.poll(request)
    except DatabaseTrouble as error:
        return _not_now(ctx, request.instance_id, error)


async def _secrets(ctx: ApiContext, caller: Caller, request: AskSecrets) -> SecretsReply | Reply:
    try:
        return await ctx.services.context_secrets.ask(request)
    except DatabaseTrouble as error:
        return _not_now(ctx, request.instance_id, error)


async def _notebook(ctx: ApiContext, caller: Caller, request: AskNotebook) -> NotebookReply | Reply:
    try:
        return await ctx.services.context_notebooks.ask(request)
    except DatabaseTrouble as error:
        return _not_now(ctx, request.instance_id, error)


def _not_now(ctx: ApiContext, instance_id: str, error: DatabaseTrouble) -> Reply:
    """The error, with proof that it comes from the agent's own server: a node survives any outage of the database."""
    reply = PLAIN.reply(error)
    body = msgspec.json.decode(reply.body) | {"server_token": ctx.agents.proof(instance_id)}
    return replace(reply, body=msgspec.json.encode(body))


_AGENTS = Group("agents", lambda ctx: ctx, "/agent/v1", needs=(), auth=Auth.AGENT, documented=False)
OPERATIONS: tuple[Operation, ...] = (
    _AGENTS("POST /status", _status, "An agent reports what its node is", body_limit=REPORT_LIMIT),
    _AGENTS("GET /assignment", _assignment, "An agent waits for what its node should be"),
    _AGENTS("POST /poll", _poll, "An agent brings its samples, and waits for what its node should be", body_limit=REPORT_LIMIT),
    _AGENTS("POST /notebooks", _notebook, "An agent reads a notebook in the name of a context's user", body_limit=REPORT_LIMIT),
    _AGENTS("POST /secrets", _secrets, "An agent asks for secrets in the name of a context's user", body_limit=REPORT_LIMIT),
)
