"""Pictures of the web page: `./dev python -m tests.ui.screens FOLDER [WORD...]`.

`docs` as FOLDER draws the pictures of the documentation. Any other folder gets the pages at all widths, in both schemes: to be
looked at by eye after a change. With words, only the pages whose name has one of them. It takes Chromium and the page as
`./dev build-ui` makes it; the workspace is simulated, and the browser's clock stands still.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from databricks.sdk import WorkspaceClient
from databricks.sdk.service.catalog import VolumeType
from databricks.sdk.service.compute import AutoScale, ClusterSpec, DataSecurityMode, Library, PythonPyPiLibrary
from databricks.sdk.service.iam import ComplexValue
from databricks.sdk.service.jobs import SparkPythonTask, SubmitTask
from playwright.sync_api import Browser, Page, Route, expect, sync_playwright

from brickyard.domain.node import Load, Role, WorkerLoad
from brickyard.domain.samples import Point, columns, pack
from brickyard.domain.spend import Charge
from brickyard.features.statements.model import Query
from brickyard.providers.nodetypes import cloud_types
from brickyard.providers.simulated import SimulatedProvider
from brickyard.providers.simulated.kernels import Answer
from brickyard.providers.simulated.knobsfile import Knobs
from brickyard.providers.simulated.samples import simulated_samples
from brickyard.providers.simulated.wanted import Wanted
from brickyard.storage.directory import Storage
from brickyard.store.samples import SampleRow
from tests.support.patience import until
from tests.support.server import TOKEN, Server
from tests.support.sqlstandin import Result, SqlStandIn
from tests.support.tokens import create
from tests.ui.conftest import CHROMIUM, WAIT_MS
from tests.ui.screenjobs import jobs_of

WIDTHS = (1440, 1024, 390)
HEIGHT = 900
LATER = timedelta(minutes=12)  # the browser's clock, so that what has just been made looks lived in
COMMON: dict[str, Any] = {"spark_version": "17.3.x-scala2.13", "node_type_id": "i3.xlarge", "autotermination_minutes": 90}
RULES = {
    "node_type_id": {"type": "allowlist", "values": ["i3.xlarge", "i3.2xlarge"], "defaultValue": "i3.xlarge"},
    "num_workers": {"type": "range", "maxValue": 4},
    "autotermination_minutes": {"type": "fixed", "value": 30},
    "custom_tags.team": {"type": "regex", "pattern": "[a-z]+"},
    "init_scripts": {"type": "forbidden"},
}


class Scene(NamedTuple):
    """A page to be drawn. `act`: what is done on it before."""

    name: str
    path: str
    act: Callable[[Page], None] = lambda page: None


def filled(server: Server, machines: SimulatedProvider) -> dict[str, str]:
    """A workspace as a team of three has it: the ids of what is shown, by name."""
    w = server.client()
    data = w.groups.create(display_name="data")
    for name, shown in (("ada", "Ada Lovelace"), ("grace", "Grace Hopper")):
        w.users.create(
            user_name=f"{name}@example.com",
            display_name=shown,
            groups=[ComplexValue(value=data.id)],
            entitlements=[ComplexValue(value="workspace-access"), ComplexValue(value="allow-cluster-create")],
        )
    w.service_principals.create(display_name="nightly scheduler")
    ada = server.client(create(w, "ada@example.com", comment="laptop", days=90))
    ids = {"pool": str(pool_of(w)), "policy": str(policy_of(w))}
    made = {
        "etl-nightly": w.clusters.create(cluster_name="etl-nightly", num_workers=2, custom_tags={"team": "data"}, **COMMON),
        "ml-training": ada.clusters.create(
            cluster_name="ml-training",
            num_workers=3,
            data_security_mode=DataSecurityMode.SINGLE_USER,
            **COMMON,
        ),
        "adhoc": ada.clusters.create(cluster_name="adhoc", autoscale=AutoScale(min_workers=1, max_workers=8), **COMMON),
        "reporting": w.clusters.create(
            cluster_name="reporting", spark_version=COMMON["spark_version"], instance_pool_id=ids["pool"], num_workers=2
        ),
        "under-policy": ada.clusters.create(
            cluster_name="dashboards",
            num_workers=1,
            data_security_mode=DataSecurityMode.USER_ISOLATION,
            spark_version="17.3.x-scala2.13",
            node_type_id="r5.large",
        ),
    }
    ids |= {name: str(wait.result().cluster_id) for name, wait in made.items()}
    task = SubmitTask(
        task_key="load",
        new_cluster=ClusterSpec(num_workers=2, spark_version=COMMON["spark_version"], node_type_id="i3.2xlarge"),
        spark_python_task=SparkPythonTask(python_file="dbfs:/load.py"),
    )
    ids["run"] = str(w.jobs.submit(run_name="load", tasks=[task]).run_id)
    machines.kernels.compute = computed
    ids["job"], ids["job-run"] = jobs_of(w)
    w.volumes.create("main", "default", "flights", VolumeType.MANAGED)
    rows = "".join(f"{carrier},{number},{number % 37 - 5}\n" for number in range(40) for carrier in ("UA", "B6", "EV"))
    for name, content in (
        ("2026.csv", "carrier,flight,delay\n" + rows),
        ("2025.csv", "carrier\nUA\n"),
        ("notes.txt", "Raw data.\n"),
    ):
        w.files.upload(f"/Volumes/main/default/flights/{name}", io.BytesIO(content.encode()))
    spent(server)
    budget = {"display_name": "Team data", "amount": 400, "tag": "team=data"}
    w.api_client.do("POST", "/api/2.1/budgets", body=budget)
    machines.kernels.compute = computed
    SqlStandIn(server, delays)
    w.libraries.install(ids["etl-nightly"], [Library(pypi=PythonPyPiLibrary(package="polars==1.9.0"))])
    w.clusters.pin(ids["etl-nightly"])
    w.clusters.delete(ids["adhoc"]).result()
    machines.knobs.full_types = frozenset({"r5.2xlarge"})
    failed = w.clusters.create(cluster_name="big-join", num_workers=2, **{**COMMON, "node_type_id": "r5.2xlarge"})
    ids["failed"] = str(failed.cluster_id)
    until(lambda: w.clusters.get(ids["failed"]).state.value == "TERMINATED", "a start fails")  # type: ignore[union-attr] # a cluster has a state
    machines.knobs.full_types = frozenset()
    for at, name in enumerate(("etl-nightly", "ml-training", "reporting", "under-policy")):
        busy = int((datetime.now(UTC) - timedelta(minutes=3 * at)).timestamp() * 1000)
        machines.set_activity(driver_of(w, ids[name]), busy=False, last_activity_ms=busy)
    machines.knobs.register_s, machines.knobs.waits_for = 3600, "waiting for a machine"
    ids["pending"] = str(
        w.clusters.create(cluster_name="features", num_workers=2, **{**COMMON, "node_type_id": "r5.large"}).cluster_id
    )
    measured(server, ids["etl-nightly"])
    driver = driver_of(w, ids["etl-nightly"])
    lines = "".join(
        f"26/11/23 09:4{number % 10}:0{number % 6} INFO DAGScheduler: Job {number} finished\n" for number in range(40)
    )
    machines.logs.write(
        driver, "log4j-active.log", (lines + "26/11/23 09:50:07 \x1b[33mWARN\x1b[0m TaskSetManager: Lost task\n").encode()
    )
    return ids


def spent(server: Server) -> None:
    """What two people's clusters have cost in the last days."""
    now = int(datetime.now(UTC).timestamp() * 1000)
    day = 86_400_000
    charges = [
        Charge(
            cluster_id=f"0101-000000-past{who}",
            instance_id=f"{who}{ago}",
            started_ms=now - ago * day,
            ended_ms=now - ago * day + (3 + (ago * 7 + len(who)) % 9) * 3_600_000,
            price_per_hour=price,
            currency="USD",
            node_type_id="i3.xlarge",
            role="worker",
            creator_user_name=f"{who}@example.com",
            cluster_name=f"{who}'s cluster",
            tags={"team": "data"},
        )
        for who, price in (("ada", 2.5), ("grace", 1.25))
        for ago in range(1, 30)
    ]
    server.store.write_sync(lambda tx: tx.charges.write([], charges))


def computed(command: str) -> Answer:
    """What drivers answer: a table to SQL, otherwise what was printed."""
    if "slow" in command:
        job = {"job_id": 12, "tasks": 200, "completed_tasks": 124, "active_tasks": 8, "stages": 2, "completed_stages": 1}
        return Answer(results={}, after_s=3600, progress={"printed": "reading flights\n", "jobs": [job]})
    if "SELECT" not in command:
        return Answer(results={"resultType": "text", "data": "336776 flights\n"})
    schema = [
        {"name": "carrier", "type": '"string"'},
        {"name": "flights", "type": '"long"'},
        {"name": "delay", "type": '"double"'},
    ]
    data = [["UA", 58665, 3.56], ["B6", 54635, 9.46], ["EV", 54173, 15.8], ["DL", 48110, 1.64], ["AA", 32729, None]]
    return Answer(results={"resultType": "table", "schema": schema, "data": data, "truncated": False})


def measured(server: Server, cluster_id: str) -> None:
    """Samples of a cluster's nodes until the browser's time: some minutes after its start, a job runs on it."""
    first = int(datetime.now(UTC).timestamp() * 1000)
    times = range(first, first + int(LATER.total_seconds() * 1000), 5_000)
    idle, busy = (Load(workers=(WorkerLoad("", 4, tasks, 0, 0),) * 2, pending=3 * tasks) for tasks in (0, 4))
    nodes = {}
    for node in server.store.read_sync(lambda tx: tx.instances.of_cluster(cluster_id)):
        assert node.assignment is not None
        points = {}
        for at in times:
            load = busy if 240 < (at - first) / 1000 < 480 else idle
            made = simulated_samples(node.instance_id, Wanted.of(node.assignment), load, now_s=at / 1000)
            values = made.samples[0].values
            if node.role is Role.WORKER:  # only drivers know these
                values = {key: value for key, value in values.items() if not key.startswith(("executors", "tasks"))}
            points[at] = Point(1.0, values)
        nodes[node.instance_id] = columns(made.about, points)
    row = SampleRow(cluster_id, 0, times[0], times[-1] + 1, pack(nodes))
    server.store.write_sync(lambda tx: tx.samples.insert([row]))


def driver_of(w: WorkspaceClient, cluster_id: str) -> str:
    return str(getattr(w.clusters.get(cluster_id).driver, "instance_id", ""))


def pool_of(w: WorkspaceClient) -> str | None:
    made = w.instance_pools.create(
        instance_pool_name="warm-i3",
        node_type_id="i3.xlarge",
        min_idle_instances=3,
        max_capacity=9,
        preloaded_spark_versions=[COMMON["spark_version"]],
        custom_tags={"team": "data"},
    )

    def idle() -> bool:
        stats = w.instance_pools.get(str(made.instance_pool_id)).stats
        return stats is not None and (stats.idle_count or 0) >= 3

    until(idle, "the pool is full")
    return made.instance_pool_id


def policy_of(w: WorkspaceClient) -> str | None:
    return w.cluster_policies.create(name="Small", description="For daily work", definition=json.dumps(RULES)).policy_id


def tried(page: Page) -> None:
    tried = page.get_by_role("complementary", name="Try it")
    expect(tried).to_be_visible()
    expect(tried.get_by_text("Checking")).to_have_count(0)


def opened(page: Page) -> None:
    """Every section of the form, open."""
    closed = page.locator(".part-head[aria-expanded=false]")
    while closed.count():
        closed.first.click()
    page.locator("main").evaluate("element => element.scrollTo(0, element.scrollHeight)")


def ran(page: Page) -> None:
    """Commands in the console: one has run, one is drawn as a chart, and one runs."""
    cells = page.get_by_label("Cells", exact=True).locator("> li")
    code = page.get_by_label("Code", exact=True)
    page.get_by_label("Language", exact=True).select_option("sql")
    code.fill("SELECT carrier, count(*) AS flights, avg(arr_delay) AS delay FROM flights GROUP BY carrier ORDER BY 2 DESC")
    code.press("Shift+Enter")
    expect(cells.nth(0)).to_contain_text("Finished")
    second = page.get_by_label("Code 2", exact=True)
    second.fill("SELECT carrier, flights FROM busiest")
    second.press("Shift+Enter")
    cells.nth(1).get_by_role("button", name="Chart").click()
    page.get_by_label("Language of cell 3").select_option("python")
    third = page.get_by_label("Code 3", exact=True)
    third.fill('flights = spark.read.parquet("/Volumes/main/default/flights")  # slow\nflights.groupBy("tailnum").count().show()')
    third.press("Control+Enter")
    expect(cells.nth(2)).to_contain_text("of 200 tasks")


def drawer(page: Page) -> None:
    page.keyboard.press("Control+`")
    page.get_by_label("Code", exact=True).fill("SELECT carrier FROM flights")
    page.get_by_label("Language", exact=True).select_option("sql")
    page.get_by_label("Code", exact=True).press("Control+Enter")
    expect(page.get_by_label("Cells", exact=True)).to_contain_text("Finished")


def reviewed(page: Page) -> None:
    page.get_by_label("Terminate after").fill("30")
    page.get_by_label("Workers", exact=True).fill("3")
    expect(page.get_by_text("The configuration is valid.")).to_be_visible()
    page.get_by_role("button", name="Review and save").click()


def secret(page: Page) -> None:
    page.get_by_role("button", name="nightly scheduler").click()
    page.get_by_role("button", name="Create a secret").click()
    expect(page.get_by_role("button", name="Delete the secret").first).to_be_visible()


def two_providers(page: Page) -> None:
    """As the server answers where there is a second provider, which does not answer."""

    def answer(route: Route) -> None:
        found = route.fetch().json()
        [one] = found["providers"]
        for node in found["nodes"][::3]:
            node["provider"] = "ray"
        hidden = [{"node_type_id": "i3.xlarge", "provider": one["name"]}]
        more = {"name": "ray", "hidden_node_types": hidden, "trouble": "ray.example:6379 does not answer: connection refused"}
        found["providers"].append(one | more)
        route.fulfill(json=found)

    page.route("**/api/2.1/machine", answer)
    page.reload()
    expect(page.get_by_role("heading", name="Provider ray")).to_be_visible()


def delays(query: Query) -> Result:
    """What the SQL editor's statements say."""
    rows = [
        (carrier, 19.5 - 2.6 * at, 900 - 120 * (at * 2 % 5)) for at, carrier in enumerate(("UA", "B6", "EV", "DL", "AA", "WN"))
    ]
    return {"carrier": "STRING", "delay": "DOUBLE", "flights": "BIGINT"}, [[name, f"{a:.1f}", str(n)] for name, a, n in rows]


def queried(page: Page) -> None:
    """Two statements with a parameter, and the chart of the second."""
    page.clock.set_system_time(datetime.now(UTC) + LATER)  # it goes on: statements take their time
    text = page.get_by_role("textbox", name="SQL", exact=True)
    text.fill(
        "-- Delays by carrier\nANALYZE TABLE main.default.flights COMPUTE STATISTICS;\n\n"
        "SELECT carrier, avg(delay) AS delay, count(*) AS flights\nFROM main.default.flights\n"
        "WHERE day >= :since\nGROUP BY carrier\nORDER BY delay DESC"
    )
    page.get_by_label(":since", exact=True).fill("2026-01-01")
    page.get_by_label("Type of :since").select_option("DATE")
    text.press("Shift+Enter")
    expect(page.get_by_role("status", name="Run")).to_have_text("2 statements succeeded")
    if page.viewport_size and page.viewport_size["width"] > 1024:
        page.get_by_role("button", name="Chart", exact=True).click()
    page.mouse.move(0, 0)


def asked(page: Page) -> None:
    page.get_by_role("button", name="Run now with parameters").click()
    expect(page.get_by_role("dialog").get_by_label("day")).to_be_visible()


def wrong(page: Page) -> None:
    page.get_by_label("Access token").fill("dapi0")
    page.get_by_role("button", name="Log in").click()


def scenes(ids: dict[str, str]) -> list[Scene]:
    etl = f"/compute/clusters/{ids['etl-nightly']}"
    tabs = ("notebooks", "libraries", "events", "spark-ui", "logs", "metrics", "apps", "jdbc", "permissions")
    admin = ("groups", "service-principals", "tokens", "audit", "runtimes", "machine")
    return [
        Scene("list", "/compute"),
        Scene("list-selected", "/compute", lambda page: page.get_by_label("Select etl-nightly").check()),
        Scene("list-job", "/compute?tab=job"),
        Scene("list-pools", "/compute?tab=pools"),
        Scene("list-policies", "/compute?tab=policies"),
        Scene("list-sql", "/compute?tab=sql"),
        Scene("create", "/compute/create"),
        Scene("create-end", "/compute/create", opened),
        Scene("create-types", "/compute/create", lambda page: page.get_by_label("Worker type", exact=True).first.click()),
        Scene("create-policy", f"/compute/create?policy={ids['policy']}"),
        Scene("edit", f"{etl}/edit"),
        Scene("edit-review", f"{etl}/edit", reviewed),
        Scene("stop", etl, lambda page: page.get_by_role("button", name="Stop", exact=True).click()),
        Scene("console", f"{etl}?tab=notebooks", ran),
        Scene("console-drawer", f"{etl}?tab=libraries", drawer),
        Scene("configuration", etl),
        *(Scene(f"tab-{tab}", f"{etl}?tab={tab}" + ("&range=15m" if tab == "metrics" else "")) for tab in tabs),
        Scene("failed", f"/compute/clusters/{ids['failed']}"),
        Scene("pending", f"/compute/clusters/{ids['pending']}"),
        Scene("pool", f"/compute/pools/{ids['pool']}"),
        Scene("pool-create", "/compute/pools/create"),
        Scene("policy", f"/compute/policies/{ids['policy']}"),
        Scene("policy-edit", f"/compute/policies/{ids['policy']}/edit", tried),
        Scene("admin-users", "/admin"),
        *(Scene(f"admin-{tab}", f"/admin?tab={tab}") for tab in admin),
        Scene("admin-secret", "/admin?tab=service-principals", secret),
        Scene("admin-add-user", "/admin", lambda page: page.get_by_role("button", name="Add a user").click()),
        Scene("admin-providers", "/admin?tab=machine", two_providers),
        Scene("settings", "/settings"),
        Scene("spend", "/spend"),
        Scene("spend-tag", "/spend?by=tag&key=team&range=30d"),
        Scene("files", "/files?path=/Volumes/main/default/flights&open=2026.csv"),
        Scene("sql-editor", "/sql/editor", queried),
        Scene("jobs", "/jobs"),
        Scene("jobs-job", f"/jobs/{ids['job']}"),
        *(Scene(f"jobs-{tab}", f"/jobs/{ids['job']}?tab={tab}") for tab in ("tasks", "settings")),
        Scene("jobs-parameters", f"/jobs/{ids['job']}", asked),
        Scene("jobs-edit", f"/jobs/{ids['job']}/edit"),
        Scene("jobs-run", f"/jobs/runs/{ids['job-run']}"),
        Scene("runs", "/jobs/runs"),
        Scene("run", f"/jobs/runs/{ids['run']}"),
        Scene("schedules", f"/schedules?cluster={ids['etl-nightly']}"),
        Scene("help", "/help/spend"),
        Scene("palette", "/compute", lambda page: page.keyboard.press("Control+k")),
        Scene("keys", "/compute", lambda page: page.keyboard.press("?")),
        Scene("sign-in", "/login"),
        Scene("sign-in-wrong", "/login", wrong),
    ]


class Picture(NamedTuple):
    """One of the documentation."""

    scene: str
    height: int
    width: int = 1440
    scheme: str = "light"


DOCS = {
    "ui-compute": Picture("list", 600),
    "ui-compute-dark": Picture("list", 600, scheme="dark"),
    "ui-compute-1024": Picture("list", 640, width=1024),
    "ui-compute-390": Picture("list", 844, width=390),
    "ui-create-390": Picture("create", 844, width=390),
    "ui-editor": Picture("create", 960),
    "ui-failed": Picture("failed", 620),
    "ui-console": Picture("console", 1180),
    "ui-metrics": Picture("tab-metrics", 740),
    "ui-pool": Picture("pool", 420),
    "ui-policy": Picture("policy-edit", 900),
    "ui-admin": Picture("admin-users", 420),
    "ui-spend": Picture("spend", 860),
    "ui-files": Picture("files", 700),
    "ui-run": Picture("run", 480),
    "ui-sql-editor": Picture("sql-editor", 980),
}


@contextlib.contextmanager
def workspace(place: Path) -> Iterator[tuple[Server, dict[str, str]]]:
    knobs = Knobs(logs=True, sample_s=1.0)
    machines = SimulatedProvider(node_types=cloud_types(), spot_market=True, knobs=knobs, storage=Storage(place))
    with Server.running(place, provider="simulated", instances=machines) as server:
        yield server, filled(server, machines)


def drawn(chromium: Browser, server: Server, scene: Scene, *, width: int, height: int, scheme: Any, file: Path) -> list[str]:
    """Draws a page. Returns what it wrote to the console, and whether it scrolls sideways."""
    context = chromium.new_context(
        viewport={"width": width, "height": height},
        color_scheme=scheme,
        reduced_motion="reduce",
        timezone_id="UTC",
        locale="en-US",
    )
    context.set_default_timeout(WAIT_MS)
    said: list[str] = []
    try:
        if scene.path != "/login":  # whoever is logged in does not see it
            form: dict[str, str | float | bool] = {"token": TOKEN, "next": "/"}
            context.request.post(f"{server.url}/login", form=form, headers={"Origin": server.url}, max_redirects=0)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: said.append(str(error)))
        page.clock.set_fixed_time(datetime.now(UTC) + LATER)
        page.goto(server.url + scene.path)
        expect(page.get_by_role("heading").first).to_be_visible()
        expect(page.locator("[aria-busy=true]:not(dl), main .mantine-Loader-root")).to_have_count(0)
        scene.act(page)
        page.wait_for_timeout(400)  # what is drawn late: charts, and colours on their way
        if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            said.append("it scrolls sideways")
        page.screenshot(path=file)
    finally:
        context.close()
    return said


def main(folder: Path, words: list[str]) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="brickyard-screens-") as place, workspace(Path(place)) as (server, ids):
        known = {each.name: each for each in scenes(ids)}
        if folder.name == "docs":
            wanted = [(known[each.scene], each.width, each.height, each.scheme, file) for file, each in DOCS.items()]
        else:
            chosen = [each for each in known.values() if not words or any(word in each.name for word in words)]
            looks = [(width, "light") for width in WIDTHS] + [(1440, "dark"), (390, "dark")]
            wanted = [
                (each, width, HEIGHT, scheme, f"{each.name}-{width}-{scheme}") for each in chosen for width, scheme in looks
            ]
        with sync_playwright() as playwright:
            chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
            expect.set_options(timeout=WAIT_MS)
            for scene, width, height, scheme, file in wanted:
                said = drawn(chromium, server, scene, width=width, height=height, scheme=scheme, file=folder / f"{file}.png")
                print(file, *said, sep="\n  ", flush=True)
            chromium.close()
    return 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
