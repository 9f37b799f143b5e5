"""Logs of clusters: lists and reads them, from the agents of running nodes and from what ended nodes have left.

A log is named `<node>/<path>`: the node, `<instance id>-<generation>`, and the path below its `logs/`. The name stays the same
when the node ends. Users' code writes the logs, so nothing in them is trusted.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from brickyard.clusters.attach.service import AttachService
from brickyard.domain import nodeops
from brickyard.domain.caller import Caller
from brickyard.domain.cluster import Instance
from brickyard.domain.errors import ApiError, InvalidParameterValue, ResourceDoesNotExist, TemporarilyUnavailable
from brickyard.domain.node import Role
from brickyard.domain.nodeops import AgentRefused, AgentUnreachable, LogPiece, ReadLog, ReadLogs
from brickyard.nodes.calls import NodeCalls
from brickyard.storage.logs import KeptLogs
from brickyard.store.store import Store

MAX_READ = 256 << 10  # bytes
AT_ONCE = 16  # agents that are asked for their logs at the same time
_NODE = re.compile(r"([A-Za-z0-9_.-]{1,100})-(\d{1,18})")


class LogName(NamedTuple):
    """The parts of a log's name."""

    node: str
    path: str

    @property
    def generation(self) -> int:
        return int(self.node.rpartition("-")[2])

    @classmethod
    def parse(cls, text: str) -> LogName:
        """Raises InvalidParameterValue."""
        node, slash, path = text.partition("/")
        if not slash or not path or not _NODE.fullmatch(node) or node.startswith("."):
            raise InvalidParameterValue(f"file is {text[:200]!r}; it must be one that clusters/logs/list names.")
        return cls(node, path)


class ClusterLog(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One log. `file` names it in `read` and `follow`; `size` is in bytes. `running`: its node has not ended."""

    file: str
    node: str
    path: str
    role: str = ""  # driver, worker or single; empty if it is not known
    size: int
    running: bool


class SilentNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node whose logs cannot be listed now."""

    node: str
    message: str


class ClusterLogList(msgspec.Struct, frozen=True, kw_only=True):
    """The logs of a cluster, the running nodes' first, then the last ended node's."""

    files: list[ClusterLog]
    unreachable: list[SilentNode]


class LogText(msgspec.Struct, frozen=True, kw_only=True):
    """Part of a log. `offset` counts bytes in the log's file; `next_position` continues where `text` ends, also when the log is
    rolled. Bytes that are not UTF-8 appear as U+FFFD. `skipped`: bytes before `text` no longer exist. `at_end`: no more has been
    written so far; `running`: more may come."""

    file: str
    offset: int
    next_offset: int
    next_position: str
    size: int
    text: str
    skipped: bool
    at_end: bool
    running: bool


class NodePiece(NamedTuple):
    """Part of a log, and whether its node is still running."""

    piece: LogPiece
    running: bool


class ClusterLogs:
    """One per server. Methods raise ApiError."""

    def __init__(self, *, attach: AttachService, store: Store, nodes: NodeCalls, kept: KeptLogs) -> None:
        self._store = store
        self._attach = attach
        self._nodes = nodes
        self._kept = kept

    async def list(self, caller: Caller, cluster_id: str) -> ClusterLogList:
        """All logs of the cluster."""
        running = [each for each in await self._attach.nodes(caller, cluster_id) if _can_be_asked(each)]
        room = asyncio.Semaphore(AT_ONCE)
        answers = await asyncio.gather(*(self._of_running(each, room) for each in running))
        found = [log for answer in answers if not isinstance(answer, SilentNode) for log in answer]
        listed = {each.node for each in found}
        kept = await asyncio.to_thread(self._of_ended, cluster_id, listed)
        silent = [each for each in answers if isinstance(each, SilentNode)]
        ended = {each.node for each in kept}
        return ClusterLogList(files=[*found, *kept], unreachable=[each for each in silent if each.node not in ended])

    async def _of_running(self, node: Instance, room: asyncio.Semaphore) -> Sequence[ClusterLog] | SilentNode:
        name = node_name(node)
        async with room:
            try:
                answer = await self._nodes.ask(node, nodeops.LOGS, ReadLogs(generation=LogName(name, "").generation))
            except AgentRefused as refused:
                return [] if refused.code == "NOT_FOUND" else SilentNode(node=name, message=refused.message)
            except AgentUnreachable as silence:
                return SilentNode(node=name, message=str(silence))
        return [
            ClusterLog(file=f"{name}/{each.name}", node=name, path=each.name, role=node.role.value, size=each.size, running=True)
            for each in answer.files
            if each.name not in nodeops.AGENT_LOGS
        ]

    def _of_ended(self, cluster_id: str, without: set[str]) -> Sequence[ClusterLog]:
        found = []
        for node in (path.name for path in self._kept.nodes(cluster_id)):
            if node in without or not _NODE.fullmatch(node):
                continue
            role, logs = self._kept.files(cluster_id, node)
            for each in logs:
                if each.name in nodeops.AGENT_LOGS:
                    continue
                log = ClusterLog(
                    file=f"{node}/{each.name}", node=node, path=each.name, role=role.value if role else "", size=each.size,
                    running=False,
                )  # fmt: skip
                found.append(log)
        return found

    async def read(self, caller: Caller, cluster_id: str, file: str, asked: ReadLog) -> LogText:
        """Reads from a log: from `asked.position` on if that is set, otherwise from `asked.offset`."""
        nodes = await self._attach.nodes(caller, cluster_id)
        piece, running = await self.piece(cluster_id, LogName.parse(file), asked, nodes)
        data = piece.data
        partial = partial_character(data)
        if partial and (partial < len(data) or (piece.at_end and running)):  # the rest of the character is still to come
            data = data[:-partial]
        return LogText(
            file=file,
            offset=piece.offset,
            next_offset=piece.offset + len(data),
            next_position=nodeops.moved(piece.start, len(data)),
            size=piece.size,
            text=data.decode(errors="replace"),
            skipped=piece.skipped,
            at_end=piece.at_end,
            running=running,
        )

    async def nodes(self, caller: Caller, cluster_id: str) -> Sequence[Instance]:
        """The cluster's instances, if the caller may read its logs."""
        return await self._attach.nodes(caller, cluster_id)

    async def instances(self, cluster_id: str) -> Sequence[Instance]:
        """The same, for a caller whose rights have been checked."""
        return await self._store.read(lambda tx: list(tx.instances.of_cluster(cluster_id)))

    async def piece(self, cluster_id: str, name: LogName, asked: ReadLog, nodes: Sequence[Instance]) -> NodePiece:
        """Reads from a log, wherever it is now. `nodes`: the cluster's instances."""
        asked = msgspec.structs.replace(asked, name=name.path, generation=name.generation)
        if (kept := await self._read_kept(cluster_id, name, asked)) is not None:
            return kept
        node = next((each for each in nodes if node_name(each) == name.node), None)
        if node is None:
            raise _missing(name)
        silence = ""
        if _can_be_asked(node):
            try:
                return NodePiece(await self._nodes.ask(node, nodeops.READ_LOG, asked), running=True)
            except AgentRefused as refused:
                if refused.code != "NOT_FOUND":
                    raise _refusal(refused) from refused
            except AgentUnreachable as unreachable:
                silence = str(unreachable)
        # The node may have ended in between: its logs are kept before they are removed.
        if (kept := await self._read_kept(cluster_id, name, asked)) is not None:
            return kept
        if silence:
            raise TemporarilyUnavailable(f"The node {name.node} does not answer: {silence}.")
        raise _missing(name)

    async def _read_kept(self, cluster_id: str, name: LogName, asked: ReadLog) -> NodePiece | None:
        """Reads from what the node has left; None if it has left nothing yet."""

        def read() -> LogPiece | None:
            if name.path in nodeops.AGENT_LOGS:
                raise FileNotFoundError(name.path)
            return self._kept.read(cluster_id, name.node, asked) if self._kept.has(cluster_id, name.node) else None

        try:
            piece = await asyncio.to_thread(read)
        except ValueError as error:
            raise InvalidParameterValue(f"{error}.") from error
        except OSError as error:
            raise _missing(name) from error
        return None if piece is None else NodePiece(piece, running=False)


def node_name(node: Instance) -> str:
    """The name of an instance's present node among a cluster's logs."""
    return f"{node.instance_id}-{node.assignment.generation if node.assignment is not None else node.generation}"


def partial_character(data: bytes) -> int:
    """How many bytes at the end are the beginning of a UTF-8 character."""
    for size in range(1, min(3, len(data)) + 1):
        first = data[-size]
        if first & 0xC0 != 0x80:  # not a continuation byte
            wanted = 4 if first >= 0xF0 else 3 if first >= 0xE0 else 2 if first >= 0xC0 else 1
            return size if wanted > size else 0
    return 0


def _can_be_asked(node: Instance) -> bool:
    return node.role is not Role.WARM and bool(node.endpoint) and bool(node.cluster_id)


def _missing(name: LogName) -> ApiError:
    return ResourceDoesNotExist(f"There is no log {'/'.join(name)[:300]}. clusters/logs/list names the logs of a cluster.")


def _refusal(refused: AgentRefused) -> ApiError:
    if refused.code == "INVALID":
        return InvalidParameterValue(f"{refused.message}.")
    return TemporarilyUnavailable(f"The node cannot read its log: {refused.message}")
