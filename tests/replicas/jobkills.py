"""Kept jobs on several servers while servers, nodes and drivers are killed; and what must be true of their runs afterwards.

Each attempt at a task of code appends its own id to a file. In the end, each attempt that has succeeded is there once, and none
is twice; each run that was asked for was made once, and is over; each attempt that runs another job has made one run.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from tests.replicas.people import KEY, NODE, Caller, Refused, Unavailable, eventually, seeded
from tests.replicas.servers import Replicas

POLL_S = 0.25
TICK_MS = 10_000  # between two times of the schedule: the shortest that there is
PAUSES_S = (1.0, 6.0)  # between two kills, unless told otherwise
MAX_REPAIRS = 3
CODE = ("spark_python_task", "notebook_task")  # kinds of tasks that append a line


class Lines:
    """What attempts have appended: how often each has begun, and how often it was done."""

    def __init__(self, began: Counter[int], done: Counter[int]) -> None:
        self.began, self.done = began, done


class Nodes:
    """How nodes are killed, and where attempts write; of one provider."""

    node_type = NODE
    job_clusters = True  # whether jobs may have clusters of their own, too

    async def prepare(self, caller: Caller) -> None:
        """Uploads what tasks run."""
        raise NotImplementedError

    async def kill(self, instance_id: str, chance: random.Random) -> str:
        """Kills the node, or a part of it; says which."""
        raise NotImplementedError

    def lines(self) -> Lines:
        """What was appended."""
        raise NotImplementedError


class Tally:
    """What has happened."""

    def __init__(self) -> None:
        self.made: dict[str, int] = {}  # the run of each request
        self.repairs = 0
        self.cancelled = 0
        self.kills: Counter[str] = Counter()
        self.attempts: Counter[str] = Counter()  # of code, by result
        self.children = 0
        self.ticks = 0  # times of the schedule at which a run began
        self.results: Counter[str] = Counter()
        self.problems: list[str] = []
        self.seconds = 0.0


class Jobs:
    """The jobs, and those who run them."""

    def __init__(self, caller: Caller, nodes: Nodes, chance: random.Random, tally: Tally) -> None:
        self.caller, self.nodes, self.chance, self.tally = caller, nodes, chance, tally
        self.clusters: list[str] = []
        self.ids: list[int] = []
        self.scheduled = 0

    async def create(self, clusters: int) -> None:
        """Clusters that all share, and a job of each kind on each of them."""
        await self.nodes.prepare(self.caller)
        for number in range(clusters):
            spec = {"spark_version": KEY, "node_type_id": self.nodes.node_type, "num_workers": 1}
            token = f"shared-{number}-{self.chance.random()}"
            made = await self.caller.call("POST", "2.1/clusters/create", idempotency_token=token, cluster_name=token, **spec)
            self.clusters.append(made["cluster_id"])
        for cluster_id in self.clusters:
            on = {"existing_cluster_id": cluster_id}
            chain = await self._job("chain", _code("one", on), _notebook("two", on, "one"), max_concurrent_runs=4)
            inputs = {"inputs": "[1, 2, 3]", "concurrency": 2, "task": _code("each", on, max_retries=1)}
            unrepaired = {"op": "EQUAL_TO", "left": "{{job.repair_count}}", "right": "0"}
            await self._job(
                "loop",
                _code("list", on),
                {"task_key": "loop", "for_each_task": inputs, "max_retries": 1, **_after("list")},
                {"task_key": "first", "condition_task": unrepaired, **_after("loop")},
            )
            run_job = {"task_key": "inner", "run_job_task": {"job_id": chain}, "max_retries": 1}
            await self._job("outer", run_job, _code("last", on, "inner", run_if="ALL_DONE"))
        if self.nodes.job_clusters:
            new = {"spark_version": KEY, "node_type_id": self.nodes.node_type, "num_workers": 1}
            on = {"job_cluster_key": "main"}
            tasks = (_code("a", on), _code("b", on, "a"), _notebook("c", on, "a"))
            await self._job("own", *tasks, job_clusters=[{"job_cluster_key": "main", "new_cluster": new}])
        compare = {"task_key": "tick", "condition_task": {"op": "EQUAL_TO", "left": "1", "right": "1"}}
        schedule = {"quartz_cron_expression": f"0/{TICK_MS // 1000} * * * * ?", "timezone_id": "UTC"}
        self.scheduled = await self._job("scheduled", compare, schedule=schedule)
        self.ids.remove(self.scheduled)

    async def pause(self) -> None:
        """Ends the schedule."""
        schedule = {"quartz_cron_expression": "0 0 0 1 1 ?", "timezone_id": "UTC", "pause_status": "PAUSED"}
        await self.caller.call("POST", "2.2/jobs/update", job_id=self.scheduled, new_settings={"schedule": schedule})

    async def _job(self, name: str, *tasks: Mapping[str, Any], **fields: Any) -> int:
        asked = {"name": name, "tasks": list(tasks), "max_concurrent_runs": 1000, "queue": {"enabled": True}, **fields}
        made = await self.caller.call("POST", "2.2/jobs/create", **asked)
        self.ids.append(int(made["job_id"]))
        return self.ids[-1]

    async def run(self, number: int) -> None:
        """One run from its beginning to its end, and its repairs."""
        token, job_id = f"run-{number}", self.ids[number % len(self.ids)]
        run_id = (await self.caller.call("POST", "2.2/jobs/run-now", job_id=job_id, idempotency_token=token))["run_id"]
        self.tally.made[token] = run_id
        if self.chance.random() < 0.04:
            await asyncio.sleep(self.chance.uniform(0, 3))
            await self.caller.call("POST", "2.2/jobs/runs/cancel", run_id=run_id)
            self.tally.cancelled += 1
        for _ in range(MAX_REPAIRS):
            shown = await self.over(run_id)
            failed = shown["state"].get("result_state") != "SUCCESS"
            if not failed and self.chance.random() > 0.15:
                return
            await self._repair(shown, failed)
        await self.over(run_id)

    async def over(self, run_id: int) -> dict[str, Any]:
        """The run, once it is over. That may take a while, as what it needs is killed."""
        while not (shown := await self.caller.call("GET", "2.2/jobs/runs/get", run_id=run_id)).get("end_time"):
            await asyncio.sleep(POLL_S)
        return shown

    async def _repair(self, shown: Mapping[str, Any], failed: bool) -> None:
        """Repairs once, even if the answer is cut off and the call is made again: then the repair before is not the latest."""
        history = (await self.caller.call("GET", "2.2/jobs/runs/get", run_id=shown["run_id"], include_history="true"))[
            "repair_history"
        ]
        latest = history[-1].get("id")
        first = min(each["task_key"] for each in shown["tasks"] if not each.get("depends_on"))
        what = {"rerun_all_failed_tasks": True} if failed else {"rerun_tasks": [first], "rerun_dependent_tasks": True}
        known = {"latest_repair_id": latest} if latest else {}
        before = self.caller.retried
        try:
            await self.caller.call("POST", "2.2/jobs/runs/repair", run_id=shown["run_id"], **known, **what)
        except Refused as refused:
            if refused.code not in ("INVALID_PARAMETER_VALUE", "INVALID_STATE") or self.caller.retried == before:
                raise
        self.tally.repairs += 1


def _code(key: str, on: Mapping[str, Any], *needs: str, **fields: Any) -> dict[str, Any]:
    python = {"python_file": "dbfs:/kills/task.py", "parameters": ["{{task.run_id}}"]}
    return {"task_key": key, "spark_python_task": python, "max_retries": 2, **on, **_after(*needs), **fields}


def _notebook(key: str, on: Mapping[str, Any], *needs: str) -> dict[str, Any]:
    notebook = {"notebook_path": "/Shared/kills", "base_parameters": {"attempt": "{{task.run_id}}"}}
    return {"task_key": key, "notebook_task": notebook, "max_retries": 2, **on, **_after(*needs)}


def _after(*needs: str) -> dict[str, Any]:
    return {"depends_on": [{"task_key": each} for each in needs]} if needs else {}


class Killer:
    """Kills one thing after the other, until there is enough. At least one server serves at any time, or is about to."""

    def __init__(self, replicas: Replicas, jobs: Jobs, pauses_s: tuple[float, float]) -> None:
        self._replicas, self._jobs, self._pauses_s = replicas, jobs, pauses_s
        self._chance, self._kills = jobs.chance, jobs.tally.kills

    async def run(self, enough: asyncio.Event) -> None:
        """Servers and nodes at the same time: a server takes seconds to start again."""
        await asyncio.gather(self._repeat(enough, (self._server, self._server, self._hang)), self._repeat(enough, (self._node,)))

    async def _repeat(self, enough: asyncio.Event, kills: Sequence[Callable[[], Awaitable[None]]]) -> None:
        while not enough.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(enough.wait(), self._chance.uniform(*self._pauses_s))
            if not enough.is_set():
                await self._chance.choice(kills)()

    async def _server(self) -> None:
        """One server, sometimes all of them."""
        for victim in self._replicas.serving if self._chance.random() < 0.2 else [self._replicas.any(self._chance)]:
            await asyncio.to_thread(victim.kill)
            self._kills["server"] += 1
        await asyncio.sleep(self._chance.uniform(0.0, 2.0))
        for replica in self._replicas.all:
            if not replica.serves:
                await asyncio.to_thread(replica.start)

    async def _hang(self) -> None:
        with self._replicas.any(self._chance).hung():
            await asyncio.sleep(self._chance.uniform(0.5, 6.0))
        self._kills["server that hung"] += 1

    async def _node(self) -> None:
        """A driver or a worker of any cluster that runs."""
        shown = await self._jobs.caller.call("GET", "2.1/clusters/list")
        running = [each for each in shown.get("clusters", ()) if each["state"] in ("RUNNING", "PENDING") and each.get("driver")]
        if not running:
            return
        cluster = self._chance.choice(running)
        role = self._chance.choice(("driver", "worker"))
        nodes = [cluster["driver"]] if role == "driver" else cluster.get("executors", ())
        for node in list(nodes)[:1]:
            if what := await self._jobs.nodes.kill(node["instance_id"], self._chance):
                self._kills[f"{what} of a {role}"] += 1


async def storm(
    replicas: Replicas,
    nodes: Nodes,
    *,
    runs: int,
    at_once: int,
    clusters: int,
    seed: int,
    pauses_s: tuple[float, float] = PAUSES_S,
) -> Tally:
    """Runs jobs so often while servers, nodes and drivers are killed. What is wrong afterwards is in `Tally.problems`."""
    tally, began = Tally(), time.monotonic()
    async with calling(replicas, seed) as caller:
        jobs = Jobs(caller, nodes, seeded(seed), tally)
        await jobs.create(clusters)
        numbers, enough = iter(range(runs)), asyncio.Event()

        async def someone() -> None:
            for number in numbers:
                await jobs.run(number)
                if number % 50 == 49:
                    print(f"{number + 1} runs, {time.monotonic() - began:.0f} s, killed: {dict(tally.kills)}", flush=True)

        killing = asyncio.create_task(Killer(replicas, jobs, pauses_s).run(enough))
        try:
            people = asyncio.gather(*(someone() for _ in range(at_once)))
            both: set[asyncio.Future[Any]] = {killing, people}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if killing.done():
                people.cancel()
                await killing  # raises: it does not end by itself
            await people
        finally:
            enough.set()
            await killing
        for replica in replicas.all:
            if not replica.serves:
                await asyncio.to_thread(replica.start)
        tally.seconds = time.monotonic() - began
        await jobs.pause()
        await Check(caller, jobs, tally).run()
    return tally


@contextlib.asynccontextmanager
async def calling(replicas: Replicas, seed: int) -> AsyncIterator[Caller]:
    caller = Caller(lambda: [each.url for each in replicas.serving], replicas.token, seeded(seed + 1))
    try:
        yield caller
    finally:
        await caller.close()


class Check:
    """What must be true once all is over, as the API tells it."""

    def __init__(self, caller: Caller, jobs: Jobs, tally: Tally) -> None:
        self._caller, self._jobs, self._tally = caller, jobs, tally
        self._children: list[int] = []  # that attempts say they have made
        self._attempts: dict[int, str] = {}  # of code: the result

    async def run(self) -> None:
        problems = self._tally.problems
        made = [each["run_id"] for job_id in self._jobs.ids for each in await self._runs(job_id)]
        asked = list(self._tally.made.values())
        for run_id in made:
            await self._run(run_id)
        self._tally.children = len(self._children)
        for what, values in (("runs", made), ("requests", asked), ("children", self._children)):
            problems += [f"{what}: {each} is there {count} times" for each, count in Counter(values).items() if count > 1]
        wanted, found = set(asked) | set(self._children), set(made)
        problems += [f"run {each} is lost" for each in wanted - found]
        problems += [f"run {each} was made for nobody" for each in found - wanted]
        self._lines(self._jobs.nodes.lines())
        await self._ticks()
        await eventually(self._settled, "job clusters have ended")

    def _lines(self, lines: Lines) -> None:
        for name, counted in (("began", lines.began), ("was done", lines.done)):
            twice = {each: count for each, count in counted.items() if count > 1}
            self._tally.problems += [f"attempt {each} {name} {count} times" for each, count in twice.items()]
            unknown = counted.keys() - self._attempts.keys()
            self._tally.problems += [f"attempt {each} {name}, and is in no run" for each in unknown]
        for attempt, result in self._attempts.items():
            if result == "SUCCESS" and lines.done[attempt] != 1:
                self._tally.problems.append(f"attempt {attempt} succeeded and has {lines.done[attempt]} lines")
        self._tally.attempts.update(self._attempts.values())

    async def _settled(self) -> bool:
        shown = await self._caller.call("GET", "2.1/clusters/list", page_size=100, **{"filter_by.cluster_sources": "JOB"})
        return all(each["state"] == "TERMINATED" for each in shown.get("clusters", ()))

    async def _ticks(self) -> None:
        """A scheduled run begins at its time or later, and the next one at a later time: so no two begin between the same two."""
        began = [each["start_time"] // TICK_MS for each in await self._runs(self._jobs.scheduled)]
        self._tally.ticks = len(set(began))
        twice = [at for at, count in Counter(began).items() if count > 1]
        self._tally.problems += [f"the schedule came twice at {at * TICK_MS}" for at in twice]

    async def _runs(self, job_id: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        page: dict[str, Any] = {}
        while True:
            answer = await self._caller.call("GET", "2.2/jobs/runs/list", job_id=job_id, limit=25, **page)
            found += answer.get("runs", ())
            if not (token := answer.get("next_page_token")):
                return found
            page = {"page_token": token}

    async def _run(self, run_id: int) -> None:
        shown = await self._jobs.over(run_id)
        self._tally.results[shown["state"]["result_state"]] += 1
        for task in shown["tasks"]:
            await self._attempt(task)

    async def _attempt(self, task: Mapping[str, Any]) -> None:
        run_id, result = int(task["run_id"]), task["state"].get("result_state", "NONE")
        if result == "NONE":
            self._tally.problems.append(f"attempt {run_id} has no result: {task['state']}")
        if "for_each_task" in task and task.get("start_time"):
            page: dict[str, Any] = {}
            while True:
                shown = await self._caller.call("GET", "2.2/jobs/runs/get", run_id=run_id, **page)
                for each in shown.get("iterations", ()):
                    await self._attempt(each)
                if not (token := shown.get("next_page_token")):
                    return
                page = {"page_token": token}
        elif "run_job_task" in task and task.get("start_time"):
            output = await self._caller.call("GET", "2.2/jobs/runs/get-output", run_id=run_id)
            if "run_job_output" in output:
                self._children.append(int(output["run_job_output"]["run_id"]))
        elif any(kind in task for kind in CODE):
            self._attempts[run_id] = result


def left_behind(home: Path, *, besides: Sequence[int] = ()) -> list[str]:
    """Command lines of processes that have to do with the directory."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.pid not in besides and str(home) in (line := " ".join(process.cmdline())):
                found.append(line[:200])
    return found


# -- the simulated provider: drivers note what they begin --------------------------------------------------------------


class SimulatedNodes(Nodes):
    """Each command appends its name, which has the attempt's id, when it begins; some fail. A node is lost as a machine is."""

    def __init__(self, home: Path) -> None:
        self._noted, self._world = home / "begun", home / "storage" / "simulated" / "world.json"
        self.knobs = home / "knobs.toml"
        self.knobs.write_text(
            f'commands_file = "{self._noted}"\ncommand_s = 0.4\ncommand_failure = 0.1\nstart_s = 0.2\njitter = 0.5\n'
        )

    async def prepare(self, caller: Caller) -> None:
        await _upload(caller, "", "")

    async def kill(self, instance_id: str, chance: random.Random) -> str:
        note = json.loads(self._world.read_text())
        body = {"instance_id": instance_id, "reason": "killed by a test"}
        with contextlib.suppress(Refused, Unavailable):
            headers = {"Authorization": f"Bearer {note['token']}"}
            await asyncio.to_thread(_post, f"{note['url']}/world/terminate", body, headers)
        return "machine"

    def lines(self) -> Lines:
        noted = Counter(int(line[-20:], 16) for line in (self._noted.read_text().split() if self._noted.exists() else ()))
        return Lines(noted, noted)


def _post(url: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> None:
    import requests  # noqa: PLC0415

    requests.post(url, json=body, headers=headers, timeout=30).raise_for_status()


# -- the local provider: real processes --------------------------------------------------------------------------------

BODY = """
import os, random, time
def note(name):
    file = os.open("/dbfs/kills/" + name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.write(file, f"{attempt}\\n".encode())
    os.close(file)
note("began")
time.sleep(random.uniform(0, 0.4))
if random.random() < 0.1:
    raise ValueError("this attempt fails")
assert spark.range(10).count() == 10 if random.random() < 0.2 else True
note("done")
"""


class LocalNodes(Nodes):
    """Real nodes: an agent, the JVM below it, or the process of a task is killed."""

    node_type = "brickyard.small"
    job_clusters = False  # each takes a minute of two cores

    def __init__(self, home: Path) -> None:
        self._storage = home / "storage"

    async def prepare(self, caller: Caller) -> None:
        await caller.call("POST", "2.0/dbfs/mkdirs", path="/kills")
        await _upload(caller, f"import sys\nattempt = sys.argv[1]\n{BODY}", f"attempt = dbutils.widgets.get('attempt')\n{BODY}")

    async def kill(self, instance_id: str, chance: random.Random) -> str:
        note = self._storage / "instances" / instance_id / "agent.pid"
        what, part = chance.choice((("agent", ""), ("JVM", "java"), ("task's process", "start.py kernel")))
        with contextlib.suppress(psutil.Error, OSError, ValueError, IndexError):
            agent = psutil.Process(json.loads(note.read_text())["pid"])
            victims = (
                [agent] if not part else [each for each in agent.children(recursive=True) if part in " ".join(each.cmdline())]
            )
            chance.choice(victims).kill()
            return what
        return ""

    def lines(self) -> Lines:
        return Lines(*(Counter(map(int, self._read(name))) for name in ("began", "done")))

    def _read(self, name: str) -> list[str]:
        file = self._storage / "dbfs" / "kills" / name
        return file.read_text().split() if file.exists() else []


async def _upload(caller: Caller, script: str, notebook: str) -> None:
    import base64  # noqa: PLC0415

    def coded(text: str) -> str:
        return base64.b64encode(text.encode()).decode()

    await caller.call("POST", "2.0/dbfs/mkdirs", path="/kills")
    await caller.call("POST", "2.0/dbfs/put", path="/kills/task.py", contents=coded(script or "pass"), overwrite=True)
    source = coded(f"# Databricks notebook source\n{notebook or 'pass'}")
    asked = {"path": "/Shared/kills", "format": "SOURCE", "language": "PYTHON", "content": source, "overwrite": True}
    await caller.call("POST", "2.0/workspace/import", **asked)
