"""A copy of the workspace's pods, kept by a watch.

The watch goes on from the last version that it has seen. Only when the server no longer has that version (410 Gone), everything
is listed again. What goes wrong is repeated, more and more rarely, and as the server says where it does (429 with Retry-After).
Nobody relies on the copy for what exists: `pods` says whether it is fresh, and the provider asks for the names each time.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping

import msgspec
import structlog

from brickyard.providers.kubernetes.api import SILENCE_S, Api, RefusedError, UnreachableError
from brickyard.providers.kubernetes.objects import Event, Mark, Pod, PodList, Status

_decode_status = msgspec.json.Decoder(Status).decode
_decode_pod = msgspec.json.Decoder(Pod).decode
_decode_mark = msgspec.json.Decoder(Mark).decode


log = structlog.get_logger(__name__)

FIRST_S, MOST_S = 0.2, 30.0  # pauses after failures
WATCH_S = 290  # the API server ends a watch after this time
GONE = 410


class Reflector:
    """`start`, then `pods` from any thread, then `stop`."""

    def __init__(self, api: Api, path: str, selector: str) -> None:
        self._api = api
        self._path = path
        self._selector = selector
        self._lock = threading.Lock()
        self._pods: dict[str, Pod] = {}  # replaced as a whole by a list, changed by events
        self._version = ""  # of the copy; empty: there is none
        self._heard_s = 0.0  # when the API server last said something
        self._cut: Callable[[], None] | None = None
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="kubernetes-watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Returns when the watch has ended."""
        self._stopping.set()
        with self._lock:
            cut = self._cut
        if cut is not None:
            cut()
        if self._thread is not None:
            self._thread.join(SILENCE_S)

    def pods(self) -> Mapping[str, Pod] | None:
        """The pods by name, or None if the copy may be old."""
        with self._lock:
            fresh = self._version and self._cut is not None and time.monotonic() - self._heard_s < SILENCE_S
            return dict(self._pods) if fresh else None

    def _run(self) -> None:
        pause_s = FIRST_S
        while not self._stopping.is_set():
            began_s, told_s = time.monotonic(), self._heard_s
            trouble, at_least_s = self._watch_once()
            if self._heard_s > told_s:
                pause_s = FIRST_S
            if not trouble and time.monotonic() - began_s > FIRST_S:
                continue
            # So that servers do not all come back at once, and none asks without a pause.
            self._stopping.wait(max(at_least_s, pause_s) * random.uniform(0.8, 1.2))  # noqa: S311 - no secret
            pause_s = min(2 * pause_s, MOST_S)

    def _watch_once(self) -> tuple[bool, float]:
        """Returns whether it failed, and for how long nothing should be asked."""
        try:
            if not self._version:
                self._list()
            self._follow()
        except RefusedError as error:
            if error.code == GONE:
                self._version = ""
                return False, 0.0
            log.warning("kubernetes_watch_refused", code=error.code, error=str(error))
            return True, error.retry_after_s
        except UnreachableError as error:
            log.info("kubernetes_watch_lost", error=str(error))
            return True, 0.0
        except msgspec.MsgspecError as error:  # of one event: what the others have told may lack it
            self._version = ""
            log.warning("kubernetes_watch_unreadable", error=str(error))
            return True, 0.0
        except Exception:
            self._version = ""
            log.exception("kubernetes_watch_failed")
            return True, MOST_S
        finally:
            with self._lock:
                self._cut = None
        return False, 0.0

    def _list(self) -> None:
        found = self._api.get(self._path, PodList, params={"labelSelector": self._selector})
        with self._lock:
            self._pods = {pod.metadata.name: pod for pod in found.items or ()}
            self._version, self._heard_s = found.metadata.resource_version, time.monotonic()

    def _follow(self) -> None:
        params = {
            "labelSelector": self._selector,
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_S),
        }
        for event in self._api.watch(self._path, params=params, connected=self._connected):
            self._take(event)

    def _connected(self, cut: Callable[[], None]) -> None:
        with self._lock:
            self._cut, self._heard_s = cut, time.monotonic()
        if self._stopping.is_set():
            cut()

    def _take(self, event: Event) -> None:
        """Raises RefusedError for an event that ends the watch."""
        if event.type == "ERROR":
            status = _decode_status(event.object)
            raise RefusedError(status.code, status.reason or "", status.message or "")
        pod = None if event.type == "BOOKMARK" else _decode_pod(event.object)
        meta = pod.metadata if pod is not None else _decode_mark(event.object).metadata
        with self._lock:
            if event.type == "DELETED":
                self._pods.pop(meta.name, None)
            elif pod is not None and event.type in ("ADDED", "MODIFIED"):
                self._pods[meta.name] = pod
            self._version, self._heard_s = meta.resource_version or self._version, time.monotonic()
