"""The execution contexts and Spark Connect sessions of a node as the agent knows them: whose they are, and which secrets the
contexts have read.

A kernel asks the node host for a secret, the host asks the agent, and the agent asks the server in the name of the context's
user. The server gave the agent a ticket for each context, which no process of the node sees: so nothing that runs there can ask
for another user, and one node's contexts cannot ask through another's.
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol, TypeVar

import msgspec

from brickyard.domain.node import AskNotebook, AskSecrets, NotebookReply, SecretsReply
from brickyard.domain.redaction import Redactor

MAX_CONTEXTS = 1_000
MAX_SESSIONS = 10_000  # beyond it, those that were named first are forgotten
MAX_ASKING = 16  # at once

Session = tuple[str, str]  # Spark's name of its user, and its id
Ask = Callable[[AskSecrets], Awaitable[SecretsReply]]
Read = Callable[[AskNotebook], Awaitable[NotebookReply]]
_Reply = TypeVar("_Reply", SecretsReply, NotebookReply)


class Question(msgspec.Struct):
    """What the node host asks for a context. Users' code chooses every field but the context."""

    ask: int  # names the question in the answer
    context_id: str
    scope: str = ""
    key: str = ""
    notebook: str = ""  # the path of a notebook or file to be read; then there is neither scope nor key


class _Known(msgspec.Struct):
    user: str
    ticket: str
    redactor: Redactor
    withdrawn: bool = False  # its user may no longer run code here
    read: set[str] = msgspec.field(default_factory=set)


class SecretHider(Protocol):
    """The node whose contexts these are: `state.NodeState`."""

    def hide(self, secret: str, sealed: str) -> None:
        """A context has read a value. `sealed`: the same, as only servers can read it."""
        ...


class Contexts:
    """Of one generation of the node."""

    def __init__(self, *, instance_id: str, hider: SecretHider, given: tuple[str, ...] = ()) -> None:
        self._instance_id = instance_id
        self._hider = hider
        self._given = given
        self._redactor = Redactor(given)
        self._known: dict[str, _Known] = {}
        self._sessions: dict[tuple[str, Session], None] = {}  # with their users, in the order in which they were named
        self._asking = 0

    def made(self, context_id: str, user: str, ticket: str) -> bool:
        """Records a context that the node host is about to make; returns whether it is new. The first one of a name counts, as
        it does there."""
        if context_id in self._known or len(self._known) >= MAX_CONTEXTS:
            return False
        self._known[context_id] = _Known(user, ticket, self._redactor)
        return True

    def forget(self, context_id: str) -> None:
        self._known.pop(context_id, None)

    @property
    def users(self) -> tuple[str, ...]:
        """Who has contexts that run, or has used a session."""
        mine = {known.user for known in self._known.values() if known.user and not known.withdrawn}
        return tuple(sorted(mine | {user for user, _ in self._sessions}))

    def uses(self, user: str, session: Session) -> None:
        """Records that a user's calls go to a session."""
        self._sessions[user, session] = None
        if len(self._sessions) > MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]

    def sessions_of(self, user: str) -> list[Session]:
        return [session for name, session in self._sessions if name == user]

    def ended(self, user: str, sessions: Iterable[Session]) -> None:
        """Records that a user's sessions have been ended."""
        for session in sessions:
            self._sessions.pop((user, session), None)

    def withdrawn(self, context_ids: Iterable[str]) -> None:
        """Records that nothing runs in these contexts any more."""
        for context_id in context_ids:
            if (known := self._known.get(context_id)) is not None:
                known.withdrawn = True

    def is_of(self, context_id: str, user: str) -> bool:
        """Whether the context is that user's. The node host, where users' code may interfere, is not asked."""
        known = self._known.get(context_id)
        return known is not None and known.user == user

    def redactor(self, context_id: str) -> Redactor:
        """Hides the cluster's secrets and those that this context has read: not others', or anybody could guess at those."""
        known = self._known.get(context_id)
        return known.redactor if known is not None else self._redactor

    async def answer(self, question: Question, ask: Ask) -> SecretsReply:
        """Asks a server. Never raises: what cannot be answered is an error in the reply."""

        async def secrets(known: _Known) -> SecretsReply:
            reply = await ask(AskSecrets(**self._by(question, known), scope=question.scope, key=question.key))
            if reply.value:
                self._has_read(known, base64.b64decode(reply.value), reply.sealed)
            return reply

        return await self._in_turn(question, SecretsReply, secrets, what="secrets")

    async def notebook(self, question: Question, read: Read) -> NotebookReply:
        """Reads a notebook through a server. Never raises: what cannot be read is an error in the reply."""

        async def content(known: _Known) -> NotebookReply:
            return await read(AskNotebook(**self._by(question, known), path=question.notebook))

        return await self._in_turn(question, NotebookReply, content, what="the workspace")

    def _by(self, question: Question, known: _Known) -> dict[str, str]:
        """In whose name a server is asked: the fields of `OfContextUser`."""
        by = {"instance_id": self._instance_id, "context_id": question.context_id}
        return by | {"user": known.user, "ticket": known.ticket}

    async def _in_turn(
        self, question: Question, kind: type[_Reply], ask: Callable[[_Known], Awaitable[_Reply]], *, what: str
    ) -> _Reply:
        """Asks for a context that has a ticket, unless too many ask already."""
        known = self._known.get(question.context_id)
        if known is None or not known.ticket:
            text = f"This context was created without access to {what}. Create a new context."
            return kind(server_token="", error_code="PERMISSION_DENIED", message=text)
        if self._asking >= MAX_ASKING:
            text = f"{MAX_ASKING} threads of this node wait for {what} already. Repeat the call."
            return kind(server_token="", error_code="REQUEST_LIMIT_EXCEEDED", message=text)
        self._asking += 1
        try:
            return await ask(known)
        finally:
            self._asking -= 1

    def _has_read(self, known: _Known, value: bytes, sealed: str) -> None:
        with contextlib.suppress(UnicodeDecodeError):  # bytes that are not text appear in none
            text = value.decode()
            if text not in known.read:
                known.read.add(text)
                known.redactor = Redactor((*self._given, *known.read))
                self._hider.hide(text, sealed)
