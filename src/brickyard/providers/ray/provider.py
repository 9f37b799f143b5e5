"""The server's side of the Ray provider."""

from __future__ import annotations

import base64
import ipaddress
import os
import re
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
import structlog

from brickyard.domain.decoding import converter
from brickyard.domain.nodetypes import NodeType
from brickyard.providers.base import (
    Capacity,
    CapacityError,
    InvalidError,
    LaunchRequest,
    Observed,
    Provider,
    Setup,
    SetupError,
    TransientError,
)
from brickyard.providers.engines import units
from brickyard.providers.ray import machines
from brickyard.providers.ray.link import Link, interpreter
from brickyard.providers.ray.machines import Machine
from brickyard.providers.ray.package import staged
from brickyard.providers.ray.section import RaySection, Wishes, asked

_to_machines = converter(list[Machine])


log = structlog.get_logger(__name__)

REMEMBERED = 10_000  # ids of terminated instances
FRESH_S = 2.0  # for how long an answer about waiting instances counts
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,60}")


class _Seen(msgspec.Struct, gc=False):
    alive: bool
    message: str = ""
    waits_for: dict[str, float] | None = None
    frees: dict[str, float] | None = None


_to_seen = converter(dict[str, _Seen])


class RayProvider(Provider):
    """See `providers.base.Provider`. If Ray cannot be reached at the start, the provider opens all the same, says so, and goes on
    trying: a server must be able to start while Ray's head is down."""

    name = "ray"
    where = "elsewhere"

    def __init__(self, setup: Setup, section: RaySection) -> None:
        self._setup = setup
        self._section = section
        self._wishes = section.wishes()
        self._named = tuple(section.named_types())
        self._machines: tuple[Machine, ...] = ()
        self._types: tuple[NodeType, ...] = self._named
        self._remembering = threading.Lock()
        self._terminated: dict[str, None] = {}
        self._waiting: tuple[float, list[dict[str, float]]] = (0.0, [])
        directory = setup.data_dir / "ray"
        try:
            package = "" if section.agent_python else str(staged(directory))
        except OSError as error:
            raise SetupError(f"the agent's code cannot be copied to {directory}: {error.strerror or error}") from error
        self._link = Link(
            python=interpreter(section.python),
            directory=directory,
            config={
                "address": section.address,
                "node_address": section.node_address,
                "workspace_id": setup.workspace_id,
                "package": package,
                "agent_python": section.agent_python,
                "autoscaler": section.autoscaler,
            },
            machines=self,
        )
        if not _is_safe(section.address):
            log.warning("ray_in_plain", address=section.address, remedy="set Ray's own TLS, or keep its ports among its machines")
        if why := self._link.open():
            log.warning("ray_not_reached", why=why, address=section.address or "this machine's")
        else:
            self.learn(self._link.call("nodes"))

    @property
    def process(self) -> int:
        """The pid of the process that speaks with Ray; 0 if there is none."""
        return self._link.pid

    def node_types(self) -> Sequence[NodeType]:
        return self._types

    def capacity(self) -> Capacity | None:
        there = self._machines
        if not there:
            return None
        return Capacity(
            cores_total=sum(each.total.get("CPU", 0.0) for each in there),
            cores_left=sum(each.free.get("CPU", 0.0) for each in there),
            memory_mb_total=int(sum(each.total.get("memory", 0.0) for each in there)) >> 20,
            memory_mb_left=int(sum(each.free.get("memory", 0.0) for each in there)) >> 20,
        )

    def shortage(self, wanted: Sequence[NodeType], *, freed: Collection[str] = ()) -> CapacityError | None:
        """See Provider.shortage. Unknown while instances are to be ended: Ray does not say on which machine each is."""
        if self._section.autoscaler or freed:
            return None
        return machines.short_of([self._asked(each) for each in wanted], self._fresh(), waiting=self._waiting[1])

    def launch(self, request: LaunchRequest) -> None:
        """See Provider.launch. With an autoscaler, what does not fit waits; otherwise it is refused."""
        if not _ID.fullmatch(request.instance_id):
            raise InvalidError(f"{request.instance_id!r} cannot be the name of an instance")
        if request.instance_id in self._terminated:
            raise InvalidError(f"instance {request.instance_id} was terminated and cannot be launched again")
        wanted = self._asked(request.node_type)
        unit = units.unit(request, self._setup, self._section)
        if not self._section.autoscaler and (missing := self._missing(request.instance_id, wanted)) is not None:
            raise missing
        self._link.call("launch", name=request.instance_id, unit=base64.b64encode(unit).decode(), asked=wanted)

    def terminate(self, instance_id: str, *, reason: str) -> None:
        with self._remembering:
            self._terminated[instance_id] = None  # a launch that was delayed must not bring it back
            if len(self._terminated) > REMEMBERED:
                del self._terminated[next(iter(self._terminated))]
        self._link.call("terminate", name=instance_id, reason=reason)

    def observe(self) -> Mapping[str, Observed]:
        """See Provider.observe. While Ray's head is dead there is no list."""
        seen = self._seen()
        return {name: self._observed(name, each) for name, each in seen.items()}

    def close(self, *, keep_nodes: bool) -> None:
        """Instances stay: Ray runs on, and so do they. The next server finds them."""
        del keep_nodes
        self._link.close()

    # -- what Ray says -------------------------------------------------------------------------------------------------------

    def _seen(self) -> dict[str, _Seen]:
        try:
            seen = _to_seen(self._link.call("observe"))
        except msgspec.ValidationError as error:
            raise TransientError(f"Ray's process has answered what cannot be read: {error}") from error
        self._waiting = (time.monotonic(), [each.waits_for for each in seen.values() if each.waits_for])
        return seen

    def _observed(self, name: str, seen: _Seen) -> Observed:
        message = seen.message
        if seen.waits_for is not None:
            message = machines.waits(seen.waits_for, self._machines, autoscaler=self._section.autoscaler)
        return Observed(instance_id=name, alive=seen.alive, message=message)

    def _missing(self, instance_id: str, wanted: Mapping[str, float]) -> CapacityError | None:
        """Why there is no room, unless the instance exists already, or others are about to make room for it."""
        there = self._fresh()
        waiting = self._waiting[1] if time.monotonic() - self._waiting[0] < FRESH_S else []
        if machines.short_of([wanted], there, waiting=waiting) is None:
            return None
        seen = self._seen()
        if instance_id in seen:
            return None
        ending = [each.frees for each in seen.values() if each.frees]
        return machines.short_of([wanted], there, waiting=self._waiting[1], ending=ending)

    def _fresh(self) -> Sequence[Machine]:
        self.learn(self._link.call("nodes"))
        return self._machines

    def learn(self, nodes: list[dict[str, Any]]) -> None:
        found = tuple(_to_machines(nodes))
        named = {each.node_type_id for each in self._named}
        types = self._named + tuple(each for each in machines.offered(found) if each.node_type_id not in named)
        self._machines = found
        if types != self._types:  # callers compare by identity first
            self._types = types

    def _asked(self, node_type: NodeType) -> dict[str, float]:
        wishes = self._wishes.get(node_type.node_type_id)
        if wishes is None:
            wishes = Wishes(accelerator_type=machines.model_of(node_type, self._machines))
        return asked(node_type, wishes)


def _is_safe(address: str) -> bool:
    """Whether what is said to Ray's head cannot be heard on a network."""
    host = address.rpartition(":")[0].strip("[]")
    if host in ("", "auto", "localhost") or os.environ.get("RAY_USE_TLS") == "1":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
