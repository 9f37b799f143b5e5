"""The fake cluster's scheduler and kubelets: they place pods by what machines have, and run each pod's command as a process that
has a loopback address of its own.

A container's mounts are directories of the pod. By default the command and its variables name those. With `Kubelets.contained`
the container has its mounts where the pod says, runs as the pod's user, and can make no namespaces (container.py).
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import re
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

from brickyard.providers.kubernetes.machines import quantity
from tests.kubernetes.schemas import Document
from tests.kubernetes.store import ENDED, Key, Objects, now
from tests.support.driver import DRIVER, pynvml

SOURCE = Path(__file__).parents[2] / "src"
CONTAINER = Path(__file__).with_name("container.py")
OF_ROOT = 65534  # owns mounts where the test's own user is root: nobody in a container
_ADDRESSES = iter(range(1, 60_000))


def machine(name: str, *, cpu: str = "8", memory: str = "32Gi", gpus: int = 0, pods: str = "110", **labels: str) -> Document:
    """A node of Kubernetes."""
    allocatable = {"cpu": cpu, "memory": memory, "pods": pods} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **labels}},
        "spec": {},
        "status": {"allocatable": allocatable, "conditions": [_condition("Ready", "True")]},
    }


def _condition(kind: str, status: str, **more: str) -> Document:
    return {"type": kind, "status": status, "lastTransitionTime": now(), **more}


class Kubelets:
    """One for all machines. `silent`: those whose kubelet does and says nothing."""

    def __init__(self, objects: Objects, root: Path) -> None:
        self._objects = objects
        self._root = root
        self.missing: set[str] = set()  # images that cannot be pulled
        self.silent: set[str] = set()
        self.contained = False
        self.claims: dict[str, Path] = {}  # name of a claim -> its directory
        self.started: dict[str, list[asyncio.subprocess.Process]] = {}  # by the pod's name: all that ever were
        self._gpus: dict[tuple[str, str], str] = {}  # (machine, UUID) -> the uid of the pod that has it
        self.processes: dict[str, asyncio.subprocess.Process] = {}  # by the pod's uid
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._loop = asyncio.create_task(self._run())
        self._tried: dict[str, int] = {}  # uid -> the room that there was when it did not fit
        self._over: dict[str, str] = {}  # uid -> why its container was killed

    async def close(self) -> None:
        tasks = [self._loop, *self._tasks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for process in self.processes.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()

    def kill(self, name: str, reason: str = "") -> None:
        """The pod's container is killed; `reason`: OOMKilled."""
        pod = next(each for each in self._objects.of("pods") if each["metadata"]["name"] == name)
        self._over[pod["metadata"]["uid"]] = reason
        os.killpg(self.processes[pod["metadata"]["uid"]].pid, signal.SIGKILL)

    async def _run(self) -> None:
        seen = 0
        while True:
            if self._objects.version == seen:
                await self._objects.bell.wait()
            seen = self._objects.version
            room = self._room()
            for pod in self._objects.of("pods"):
                uid, spec = pod["metadata"]["uid"], pod["spec"]
                if not spec.get("nodeName"):
                    if self._tried.get(uid) != room:  # nothing has changed since it did not fit
                        self._place(pod)
                        self._tried[uid] = room
                elif uid not in self._tasks and spec["nodeName"] not in self.silent:
                    self._tasks[uid] = asyncio.create_task(self._container(_key(pod), uid))

    # ── scheduling ──

    def _room(self) -> int:
        """Another number when there may be more room."""
        nodes = tuple(each["metadata"]["resourceVersion"] for each in self._objects.of("nodes"))
        placed = tuple(
            each["metadata"]["uid"] for each in self._objects.of("pods") if _runs_on(each, each["spec"].get("nodeName") or "-")
        )
        return hash((nodes, placed))

    def _place(self, pod: Document) -> None:
        need, reasons = _requests(pod), []
        able: list[tuple[int, str]] = []
        for node in self._objects.of("nodes"):
            name = node["metadata"]["name"]
            free = {key: quantity(value) for key, value in node["status"]["allocatable"].items()}
            there = [each for each in self._objects.of("pods") if _runs_on(each, name)]
            for each in there:
                for what, amount in _requests(each).items():
                    free[what] = free.get(what, 0.0) - amount
            short = [what for what, amount in need.items() if amount > free.get(what, 0.0) + 1e-6]
            labels = node["metadata"].get("labels", {})
            if any(labels.get(key) != value for key, value in pod["spec"].get("nodeSelector", {}).items()):
                reasons.append("node(s) didn't match Pod's node affinity/selector")
            elif node["spec"].get("unschedulable") or node["status"]["conditions"][0]["status"] != "True":
                reasons.append("node(s) were unschedulable")
            elif short:
                reasons += [f"Insufficient {what}" for what in short]
            else:
                able.append((_alike(pod, there), name))
        key = _key(pod)
        if able:
            self._objects.change(key, lambda made: _bind(made, min(able)[1]))
            return
        said = ", ".join(f"{reasons.count(why)} {why}" for why in sorted(set(reasons)))
        total = sum(1 for _ in self._objects.of("nodes"))
        message = f"0/{total} nodes are available: {said}."
        if not any(each.get("message") == message for each in pod["status"].get("conditions", ())):
            told = _condition("PodScheduled", "False", reason="Unschedulable", message=message)
            self._objects.change(key, lambda made: made["status"].update(conditions=[told]))

    # ── containers ──

    async def _container(self, key: Key, uid: str) -> None:
        pod = self._objects.all[key]
        container, place = pod["spec"]["containers"][0], self._root / uid
        status: Document = {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "ready": False,
            "restartCount": 0,
        }

        def tell(state: Document, phase: str = "Pending", **more: Any) -> None:
            def change(made: Document) -> None:
                made["status"] |= {"phase": phase, "containerStatuses": [{**status, "state": state}], **more}

            found = self._objects.all.get(key)
            if found is not None and found["metadata"]["uid"] == uid and pod["spec"]["nodeName"] not in self.silent:
                self._objects.change(key, change)

        tell({"waiting": {"reason": "ContainerCreating"}})
        if container["image"] in self.missing:
            tell({"waiting": {"reason": "ErrImagePull", "message": f'failed to pull image "{container["image"]}": not found'}})
        await self._until(lambda: (container["image"] not in self.missing and self._mounted(pod, place)) or self._is_ending(key))
        if not self._is_ending(key):
            address = f"127.77.{(number := next(_ADDRESSES)) // 250}.{number % 250 + 1}"
            process = await self._start(pod, place, address, self._give_gpus(pod))
            tell({"running": {"startedAt": now()}}, "Running", podIP=address)
            ending = asyncio.create_task(self._end_when_asked(key, process))
            code = await process.wait()
            ending.cancel()
            self._gpus = {gpu: holder for gpu, holder in self._gpus.items() if holder != uid}
            if pod["spec"]["nodeName"] in self.silent:
                await asyncio.get_running_loop().create_future()  # its kubelet tells nobody
            state = self._ended(uid, code, (place / "log").read_text(errors="replace"))
            tell({"terminated": state}, "Succeeded" if code == 0 else "Failed")
        if self._is_ending(key):
            self._objects.remove(key)
        shutil.rmtree(place, ignore_errors=True)

    def _ended(self, uid: str, code: int, log: str) -> Document:
        reason = self._over.get(uid) or ("Completed" if code == 0 else "Error")
        said = {"message": "\n".join(log.splitlines()[-80:])[-2048:]} if code else {}
        return {"exitCode": code if code >= 0 else 128 - code, "reason": reason, "finishedAt": now(), **said}

    async def _until(self, condition: Any) -> None:
        while not condition():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._objects.bell.wait(), 0.05)

    def _is_ending(self, key: Key) -> bool:
        found = self._objects.all.get(key)
        return found is None or "deletionTimestamp" in found["metadata"]

    def _mounted(self, pod: Document, place: Path) -> bool:
        """Whether all volumes are there: kubelets wait for secrets."""
        for volume in pod["spec"].get("volumes", ()):
            directory = place / "volumes" / volume["name"]
            if claim := volume.get("persistentVolumeClaim"):
                directory.parent.mkdir(parents=True, exist_ok=True)
                shared = self.claims.setdefault(claim["claimName"], self._root / "claims" / claim["claimName"])
                if not directory.is_symlink():
                    shared.mkdir(parents=True, exist_ok=True)
                    directory.symlink_to(shared)
            directory.mkdir(parents=True, exist_ok=True)
            if "secret" in volume:
                name = volume["secret"]["secretName"]
                found = self._objects.all.get(Key("secrets", pod["metadata"]["namespace"], name))
                if found is None:
                    return False
                for item in volume["secret"]["items"]:
                    (directory / item["path"]).write_bytes(base64.b64decode(found["data"][item["key"]]))
            elif "configMap" in volume:
                key = Key("configmaps", pod["metadata"]["namespace"], volume["configMap"]["name"])
                for name, text in self._objects.all[key]["data"].items():
                    (directory / name).write_text(text)
            else:
                _belong_to_root(directory, pod["spec"].get("securityContext", {}).get("fsGroup"))
        return True

    def _give_gpus(self, pod: Document) -> list[str]:
        """Of its machine's, as many as it asks for and nobody has: the device plugin's and the container runtime's part."""
        name, uid = pod["spec"]["nodeName"], pod["metadata"]["uid"]
        free = [(name, each.uuid) for each in pynvml.ALL if (name, each.uuid) not in self._gpus]
        given = free[: int(_requests(pod).get("nvidia.com/gpu", 0))]
        self._gpus |= dict.fromkeys(given, uid)
        return [uuid for _, uuid in given]

    async def _start(self, pod: Document, place: Path, address: str, gpus: list[str]) -> asyncio.subprocess.Process:
        container = pod["spec"]["containers"][0]
        mounts = {
            each["mountPath"]: str((place / "volumes" / each["name"]).resolve() / each.get("subPath", ""))
            for each in container.get("volumeMounts", ())
        }
        command = [word if self.contained else _moved(word, mounts) for word in container["command"]]
        environ = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONPATH": str(SOURCE), "HOME": str(place)}
        environ |= {"KUBERNETES_SERVICE_HOST": "10.0.0.1"} | self._links(pod)
        if gpus:  # elsewhere, a container has no driver
            environ |= {"PYTHONPATH": f"{DRIVER}:{SOURCE}", "NVIDIA_VISIBLE_DEVICES": ",".join(gpus)}
        for variable in container.get("env", ()):
            value = self._value(variable, pod, address)
            environ[variable["name"]] = re.sub(r"\$\((\w+)\)", lambda found: environ.get(found[1], found[0]), value)
        place.mkdir(parents=True, exist_ok=True)  # a pod without volumes has none yet
        with (place / "log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *self._contained(pod, command, mounts), env=environ, cwd="/", stdin=asyncio.subprocess.DEVNULL, stdout=log,
                stderr=log, start_new_session=True,
            )  # fmt: skip
        self.processes[pod["metadata"]["uid"]] = process
        self.started.setdefault(pod["metadata"]["name"], []).append(process)
        return process

    def _contained(self, pod: Document, command: list[str], mounts: dict[str, str]) -> list[str]:
        program = [sys.executable, *command[1:]] if command[0] == "python3" else command
        if not self.contained:
            return program
        given, read_only = pod["spec"]["securityContext"], pod["spec"]["containers"][0].get("volumeMounts", ())
        kinds = {each["mountPath"]: "ro" if each.get("readOnly") else "rw" for each in read_only}
        plan = {
            "uid": given["runAsUser"],
            "gid": given["runAsGroup"],
            "mounts": [[kinds[at], source, at, ""] for at, source in sorted(mounts.items())],
            "visible": [str(self._root.parent)],  # with the kubeconfig
            "argv": program,
        }
        return [sys.executable, str(CONTAINER), json.dumps(plan)]

    def _links(self, pod: Document) -> dict[str, str]:
        """The variables for each Service of the namespace, unless the pod wants none."""
        found: dict[str, str] = {}
        if pod["spec"].get("enableServiceLinks") is False:
            return found
        for service in self._objects.of("services", pod["metadata"]["namespace"]):
            if (address := service["spec"].get("clusterIP", "10.96.0.7")) != "None":
                found |= links(service["metadata"]["name"], address, service["spec"]["ports"])
        return found

    def _value(self, variable: Document, pod: Document, address: str) -> str:
        match variable.get("valueFrom"):
            case {"fieldRef": {"fieldPath": "metadata.name"}}:
                return str(pod["metadata"]["name"])
            case {"fieldRef": {"fieldPath": "metadata.namespace"}}:
                return str(pod["metadata"]["namespace"])
            case {"fieldRef": {"fieldPath": "status.podIP"}}:
                return address
            case {"secretKeyRef": {"name": name, "key": key}}:  # `_mounted` has waited for it
                found = self._objects.all[Key("secrets", pod["metadata"]["namespace"], name)]
                return base64.b64decode(found["data"][key]).decode()
        return str(variable["value"])

    async def _end_when_asked(self, key: Key, process: asyncio.subprocess.Process) -> None:
        machine = self._objects.all[key]["spec"]["nodeName"]
        await self._until(lambda: self._is_ending(key) and machine not in self.silent)
        grace = self._objects.all.get(key, {}).get("metadata", {}).get("deletionGracePeriodSeconds", 0)
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
            await asyncio.sleep(grace)
            os.killpg(process.pid, signal.SIGKILL)


def links(name: str, address: str, ports: list[Document]) -> dict[str, str]:
    """What kubelets write into containers for a Service."""
    prefix, first = name.upper().replace("-", "_"), ports[0]["port"]
    found = {
        f"{prefix}_SERVICE_HOST": address,
        f"{prefix}_SERVICE_PORT": str(first),
        f"{prefix}_PORT": f"tcp://{address}:{first}",
    }
    for each in ports:
        number = each["port"]
        if each.get("name"):
            found[f"{prefix}_SERVICE_PORT_{each['name'].upper().replace('-', '_')}"] = str(number)
        values = {"": f"tcp://{address}:{number}", "_PROTO": "tcp", "_PORT": str(number), "_ADDR": address}
        found |= {f"{prefix}_PORT_{number}_TCP{ending}": value for ending, value in values.items()}
    return found


def _belong_to_root(directory: Path, group: int | None) -> None:
    """As kubelets make volumes: they are root's, and whoever is in fsGroup may write. (A container here has one group.)"""
    if not os.geteuid() and directory.stat().st_uid == os.geteuid():
        os.chown(directory, OF_ROOT, os.getegid())
    with contextlib.suppress(PermissionError):
        directory.chmod(0o2777 if group else 0o777)


def _key(pod: Document) -> Key:
    return Key("pods", pod["metadata"]["namespace"], pod["metadata"]["name"])


def _requests(pod: Document) -> dict[str, float]:
    total = {"pods": 1.0}
    for container in pod["spec"]["containers"]:
        for key, value in container.get("resources", {}).get("requests", {}).items():
            total[key] = total.get(key, 0.0) + quantity(str(value))
    return total


def _runs_on(pod: Document, machine: str) -> bool:
    return pod["spec"].get("nodeName") == machine and pod.get("status", {}).get("phase") not in ENDED


def _alike(pod: Document, there: list[Document]) -> int:
    """How many pods on a machine the spread counts."""
    wanted = [each["labelSelector"]["matchLabels"].items() for each in pod["spec"].get("topologySpreadConstraints", ())]
    return sum(1 for each in there for labels in wanted if labels <= each["metadata"].get("labels", {}).items())


def _bind(pod: Document, machine: str) -> None:
    pod["spec"]["nodeName"] = machine
    pod["status"]["conditions"] = [_condition("PodScheduled", "True")]


def _moved(word: str, mounts: dict[str, str]) -> str:
    for path, directory in mounts.items():
        if word.startswith(f"{path}/"):
            return directory + word.removeprefix(path)
    return word
