"""Speaks with Ray. Ray is the record: the names of detached actors. Memory holds what can be asked again, and why something has
ended, which nobody else remembers."""

from __future__ import annotations

import base64
import contextlib
import os
import socket
import threading
import time
from typing import Any

import ray
from ray.exceptions import ActorUnavailableError, RayError

from . import instance as instances

CONNECT_S = 3.0
END_S = 12.0  # for an agent to end its node; then the actor is killed, and the agent gets the kernel's signal
ADOPT_S = 5.0
AGAIN_S = 1.0
REASON_S = 3.0  # Ray may tell why an actor has ended a moment after it has ceased to list it

ray.cloudpickle.register_pickle_by_value(instances)


class Refused(Exception):
    """The call can never succeed."""


class NotReached(Exception):
    """Ray cannot be used; see `main.Failed`."""

    def __init__(self, message: str, *, setup: bool = False) -> None:
        super().__init__(message)
        self.setup = setup


class Known:
    """An instance that this process has launched or found."""

    def __init__(self, handle: Any, asked: dict[str, float]) -> None:
        self.handle = handle
        self.asked = asked  # empty if another process launched it
        self.started = False
        self.node = ""  # where, once it has started
        self.ending = False
        self.ending_since = 0.0
        self.missing_since = 0.0  # when Ray first did not list it
        self.dead: str | None = None  # why, once it has ended


class Cluster:
    """`do_...` are the server's calls. They may be made at once."""

    def __init__(
        self, *, address: str, node_address: str, workspace_id: str, package: str, agent_python: str, autoscaler: bool
    ) -> None:
        self._agent_python = agent_python
        self._autoscaler = autoscaler
        self._requested: list[dict[str, float]] | None = None  # what a process before this one has requested is not known
        self._known: dict[str, Known] = {}
        self._lock = threading.RLock()
        self._launching = [threading.Lock() for _ in range(64)]  # an instance's launches wait for each other
        self._namespace = f"brickyard-{workspace_id}"
        self._reach(address, node_address, package)
        self._actor = ray.remote(instances.Instance)
        for name in ray.util.list_named_actors():
            self._adopt(name)

    def _reach(self, address: str, node_address: str, package: str) -> None:
        if address not in ("", "auto"):
            host, _, port = address.rpartition(":")
            try:
                socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()  # Ray itself would try for a minute
            except (OSError, ValueError) as error:
                raise NotReached(f"no head of Ray answers at {address} ({error})") from error
        more = {"_node_ip_address": node_address} if node_address else {}
        try:
            ray.init(
                address=address or "auto",
                namespace=self._namespace,
                log_to_driver=False,
                configure_logging=False,
                runtime_env={"py_modules": [package]} if package else None,
                **more,
            )
        except Exception as error:
            text = " ".join(str(error).split())[:600]
            raise NotReached(text, setup="Version mismatch" in text) from error

    # -- the server's calls ------------------------------------------------------------------------------------------------

    def do_launch(self, name: str, unit: str, asked: dict[str, float]) -> None:
        """Begins an instance, or finds that it exists."""
        with self._launching[hash(name) % len(self._launching)]:
            known = self._known.get(name) or self._adopt(name, patience_s=ADOPT_S)
            if known is not None:
                if known.ending or known.dead is not None:
                    raise Refused(f"instance {name} was terminated or has ended, and cannot be launched again")
                return
            more = dict(asked)
            handle = self._actor.options(
                name=name,
                namespace=self._namespace,
                lifetime="detached",
                get_if_exists=True,  # another server may be launching it
                max_restarts=0,  # an instance that has ended stays so
                max_task_retries=0,
                num_cpus=more.pop("CPU"),
                memory=more.pop("memory"),
                num_gpus=more.pop("GPU", 0),
                resources=more or None,
                scheduling_strategy="SPREAD",
            ).remote(base64.b64decode(unit), self._agent_python)
            self._follow(name, Known(handle, asked))
        self._request()

    def do_terminate(self, name: str, reason: str) -> None:
        """First the agent is told, so that it ends its node while Ray still counts its room. It is killed if it takes too long,
        and before it has a machine."""
        known = self._known.get(name) or self._adopt(name)
        if known is None:
            return
        now = time.monotonic()
        with self._lock:
            first = not known.ending
            known.ending = True
            known.ending_since = known.ending_since or now
        if not known.started or known.dead is not None or now - known.ending_since > END_S:
            ray.kill(known.handle, no_restart=True)
        elif first:
            known.handle.end.remote(reason)
        if known.dead is not None and name not in ray.util.list_named_actors():
            self._forget(name)

    def do_observe(self) -> dict[str, dict[str, Any]]:
        """All instances. Names come from Ray. One that is missing there has ended, and is listed until it is terminated."""
        with self._lock:
            before = dict(self._known)  # one that is launched while Ray is asked may be missing in its answer
        listed = set(ray.util.list_named_actors())
        for name in listed - self._known.keys():
            self._adopt(name)
        found = {}
        for name, known in before.items():
            if name in listed or not known.ending:
                found[name] = self._seen(known, "" if name in listed else self._gone(known))
            else:
                self._forget(name)
        for name in listed - before.keys():
            known_now = self._known.get(name)
            if known_now is not None:
                found[name] = self._seen(known_now, "")
        self._request()
        return found

    def do_nodes(self) -> list[dict[str, Any]]:
        """Ray's machines: what each has, and what is free there now. One that is being drained takes nothing any more."""
        free = ray._private.state.available_resources_per_node()  # Ray has no public call for it
        leaving = self._draining()
        return [
            {"id": node["NodeID"], "host": node["NodeManagerAddress"], "total": node["Resources"], "free": free[node["NodeID"]]}
            for node in ray.nodes()
            if node["Alive"] and node["NodeID"] in free and node["NodeID"] not in leaving
        ]

    def tell_who_leaves(self) -> None:
        """Tells the instances on machines that are being drained. To be repeated: some may not be able to hear it yet."""
        if leaving := self._draining():
            with self._lock:
                told = [each for each in self._known.values() if each.node in leaving and each.dead is None and not each.ending]
            for each in told:
                each.handle.leave.remote()

    @staticmethod
    def _draining() -> set[str]:
        """Machines that Ray's autoscaler, or `ray drain-node`, is about to take away."""
        return set(ray._private.state.state.get_draining_nodes())  # as above

    # -- instances -----------------------------------------------------------------------------------------------------------

    @staticmethod
    def _seen(known: Known, gone: str) -> dict[str, Any]:
        if known.dead is not None or gone:
            return {"alive": False, "message": known.dead or gone}
        if known.ending:
            return {"alive": True, "frees": known.asked}
        if known.started:
            return {"alive": True}
        return {"alive": True, "waits_for": known.asked}

    @staticmethod
    def _gone(known: Known) -> str:
        """Why one that Ray does not list has ended; "" as long as Ray may still tell."""
        known.missing_since = known.missing_since or time.monotonic()
        return "Ray no longer lists its actor" if time.monotonic() - known.missing_since > REASON_S else ""

    def _adopt(self, name: str, *, patience_s: float = 0.0) -> Known | None:
        """Follows an instance that Ray lists. `patience_s`: to learn whether it is ending."""
        try:
            handle = ray.get_actor(name)
        except ValueError:
            return None
        with self._lock:
            if name in self._known:
                return self._known[name]
            known = Known(handle, {})
        if patience_s:
            with contextlib.suppress(RayError):  # it waits for a machine, or has just ended
                known.ending = bool(ray.get(handle.started.remote(), timeout=patience_s)["ending"])
        return self._follow(name, known)

    def _follow(self, name: str, known: Known) -> Known:
        """Hears when the instance starts and when it ends."""
        with self._lock:
            if name in self._known:
                return self._known[name]
            self._known[name] = known
        self._listen(name, known)
        return known

    def _listen(self, name: str, known: Known) -> None:
        known.handle.started.remote().future().add_done_callback(lambda future: self._has_started(known, future))
        known.handle.ended.remote().future().add_done_callback(lambda future: self._has_ended(name, known, future))

    def _has_started(self, known: Known, future: Any) -> None:
        if future.exception() is None:
            with self._lock:
                known.started = True
                known.node = str(future.result().get("node", ""))
                known.ending = known.ending or bool(future.result()["ending"])

    def _has_ended(self, name: str, known: Known, future: Any) -> None:
        error = future.exception()
        if isinstance(error, ActorUnavailableError):  # the way there is interrupted, and nothing else is known
            timer = threading.Timer(AGAIN_S, self._listen, (name, known))
            timer.daemon = True
            timer.start()
            return
        with self._lock:
            known.dead = _agent_ended(future.result()) if error is None else _actor_ended(str(error))
            # Another server may have terminated it: then nobody need be told here.
            known.ending = known.ending or (
                "`ray.kill`" in known.dead if error is not None else bool(future.result().get("ending"))
            )
            ending = known.ending
        if ending:
            threading.Thread(target=self._kill, args=(known,), daemon=True).start()  # this is a thread of Ray's

    @staticmethod
    def _kill(known: Known) -> None:
        with contextlib.suppress(RayError, ValueError):
            ray.kill(known.handle, no_restart=True)

    def _forget(self, name: str) -> None:
        with self._lock:
            self._known.pop(name, None)

    def _request(self) -> None:
        """Tells Ray's autoscaler for what instances wait."""
        if not self._autoscaler:
            return
        from ray.autoscaler.sdk import request_resources  # noqa: PLC0415 - only where there is an autoscaler

        with self._lock:
            waits = [each.asked for each in self._known.values() if not each.started and each.dead is None and each.asked]
            if waits == self._requested:
                return
            self._requested = waits
        request_resources(bundles=waits)


def _agent_ended(result: dict[str, Any]) -> str:
    """In one line: what the agent has said last, or its exit code."""
    said = [line.strip() for line in str(result.get("said", "")).splitlines() if line.strip()]
    code = result.get("code")
    if code == os.EX_CONFIG and said:
        return said[-1]
    if said and "No module named" in said[-1]:
        python = result.get("python")
        return f"{python} on that machine cannot run an agent ({said[-1]}): install brickyard there, or set [ray] agent_python."
    return f"its agent has ended (exit code {code})" + (f": {said[-1]}" if said and code else "")


def _actor_ended(text: str) -> str:
    """Ray's own words, without its list of the actor's ids."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("\t")]
    return " ".join(" ".join(lines[-2:]).split())[:400]
