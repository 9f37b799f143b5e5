"""Server, agents and sandboxes of a pool, with a node host that needs no Spark: tenants come and go, and nothing of one reaches
the next. `tests/spark/test_pool.py` is the same with Spark."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import psutil
from databricks.sdk import WorkspaceClient
from databricks.sdk.service import compute

from brickyard.config.settings import Settings
from brickyard.domain.runtimes import RuntimeManifest
from brickyard.providers.local import LocalProvider
from tests.agent.world import FAKES
from tests.support.golden import Golden
from tests.support.patience import SOON, until
from tests.support.server import Server

RUNTIME, TYPE = "17.3.x-scala2.13", "brickyard.small"
MARK = "left-by-an-earlier-tenant"

LEAVE = f"""
import os, pathlib, subprocess, tempfile
written = []
for place in {{pathlib.Path.home(), pathlib.Path.home().parent, pathlib.Path(tempfile.gettempdir()), pathlib.Path("/dev/shm")}}:
    try:
        (place / "{MARK}").write_text("{MARK}")
        written.append(str(place))
    except OSError:
        pass
os.environ["LEFT"] = "{MARK}"
subprocess.Popen(["sleep", "98765"], start_new_session=True, env={{**os.environ, "NAME": "{MARK}"}})
print(len(written) >= 2)
"""
LOOK = f"""
import os, pathlib, tempfile
found = []
for root in (pathlib.Path.home().parent, pathlib.Path(tempfile.gettempdir()), pathlib.Path("/dev/shm")):
    found += [str(path) for path in root.rglob("*") if "{MARK}" in path.name]
for process in pathlib.Path("/proc").glob("[0-9]*"):
    for name in ("environ", "cmdline"):
        try:
            data = (process / name).read_bytes()
        except OSError:
            continue
        if b"98765" in data or b"{MARK}" in data:
            found.append(f"{{name}} of {{process.name}}")
print(found, os.environ.get("LEFT"))
"""


def provider(data_dir: Path, cache_dir: Path) -> LocalProvider:
    """The local provider with a runtime whose node host is the fake one."""
    home = cache_dir / "runtimes" / "fake"
    home.mkdir(parents=True)
    manifest = RuntimeManifest(
        environment="fake", spark_version="0", scala_version="0", home=str(home), python=sys.executable, python_version="3",
        python_base=sys.base_prefix, spark_home=str(home), java_home="", java_real=sys.prefix, java_version="",
    )  # fmt: skip
    (home / "runtime.json").write_bytes(msgspec.json.encode(manifest))
    data_dir.mkdir(mode=0o700)
    settings = Settings(data_dir=data_dir, cache_dir=cache_dir)
    return LocalProvider(
        settings=settings, server_file=data_dir / "server.json", environments={RUNTIME: "fake"}, node_code_dir=FAKES
    )


def start(w: WorkspaceClient, name: str, pool_id: str, conf: dict[str, str] | None = None) -> compute.ClusterDetails:
    return w.clusters.create(
        cluster_name=name,
        spark_version=RUNTIME,
        instance_pool_id=pool_id,
        kind=compute.Kind.CLASSIC_PREVIEW,
        is_single_node=True,
        spark_conf=conf,
    ).result(timeout=SOON)


def run(w: WorkspaceClient, cluster_id: str, command: str) -> str:
    python = compute.Language.PYTHON
    context = w.command_execution.create_and_wait(cluster_id=cluster_id, language=python, timeout=SOON).id
    done = w.command_execution.execute_and_wait(
        cluster_id=cluster_id, context_id=context, language=python, command=command, timeout=SOON
    )
    assert done.results is not None
    return str(done.results.data).strip()


def remark(w: WorkspaceClient, cluster_id: str) -> str:
    found = next(event for event in w.clusters.events(cluster_id) if event.type is compute.EventType.RUNNING)
    return (found.details.driver_state_message if found.details else None) or ""


def settled(w: WorkspaceClient, pool_id: str) -> bool:
    stats = w.instance_pools.get(pool_id).stats
    return stats is not None and (stats.used_count, stats.idle_count, stats.pending_idle_count) == (0, 1, 0)


def marked() -> list[psutil.Process]:
    """Processes of this machine that carry the mark in their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if MARK in process.environ().values():
                found.append(process)
        except psutil.Error:
            continue
    return found


def test_tenants_of_one_instance(tmp_path: Path, golden: Golden) -> None:
    data_dir, cache_dir = tmp_path / "workspace", tmp_path / "cache"
    with Server.running(data_dir, instances=provider(data_dir, cache_dir), cache_dir=cache_dir) as server:
        w = server.client()
        pool_id = str(
            w.instance_pools.create(
                "one", TYPE, min_idle_instances=1, max_capacity=1, preloaded_spark_versions=[RUNTIME]
            ).instance_pool_id
        )
        until(lambda: settled(w, pool_id), "the pool did not become warm")
        first = start(w, "first", pool_id)
        golden(remark(w, str(first.cluster_id)), "1 of 1 ")
        assert run(w, str(first.cluster_id), LEAVE) == "True"
        assert marked(), "what shall not survive is there"
        w.clusters.delete(str(first.cluster_id)).result(timeout=SOON)
        assert not marked(), "TERMINATED: nothing of the cluster runs any more"
        until(lambda: settled(w, pool_id), "the instance did not come back")

        why = "spark.driver.memory asks for another heap"
        second = start(w, "second", pool_id, {"test.cold": why})
        assert first.driver is not None
        assert second.driver is not None
        assert second.driver.instance_id == first.driver.instance_id
        golden(remark(w, str(second.cluster_id)), "0 of 1 ", why)
        assert run(w, str(second.cluster_id), LOOK) == "[] None"
        w.clusters.permanent_delete(str(second.cluster_id))
        until(lambda: settled(w, pool_id), "the instance did not come back again")
        w.instance_pools.delete(pool_id)
        until(lambda: not list((data_dir / "instances").glob("i-*")), "the instance's directory is still there")


def test_an_instance_that_cannot_be_prepared_is_told_and_serves_cold(tmp_path: Path, golden: Golden) -> None:
    data_dir, cache_dir = tmp_path / "workspace", tmp_path / "cache"
    machines = provider(data_dir, cache_dir)
    (cache_dir / "runtimes" / "fake" / "broken").touch()
    with Server.running(data_dir, instances=machines, cache_dir=cache_dir) as server:
        w = server.client()
        made = w.instance_pools.create("broken", TYPE, min_idle_instances=1, preloaded_spark_versions=[RUNTIME])
        pool_id = str(made.instance_pool_id)

        def errors() -> list[str]:
            status = w.instance_pools.get(pool_id).status
            return [str(each.message) for each in (status.pending_instance_errors or [])] if status else []

        until(errors, "nothing was told")
        golden(errors()[0])
        found = start(w, "cold", pool_id)
        golden(remark(w, str(found.cluster_id)))
