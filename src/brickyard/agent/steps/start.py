"""START: start a JVM that has no role yet. Also how the isolated node host is started, for HOST and WARM."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import msgspec

from brickyard.agent import clock
from brickyard.agent.config import AgentConfig
from brickyard.agent.converge import Stage
from brickyard.agent.host import HostError, NodeHost
from brickyard.agent.libraries import environment
from brickyard.agent.state import NodeState
from brickyard.agent.steps.begin import link_workspace
from brickyard.agent.steps.work import Work
from brickyard.agent.watching.memory import heap_mb, java_options
from brickyard.domain.node import Assignment
from brickyard.domain.runtimes import RuntimeManifest
from brickyard.machine import cgroups, cranrepo, files, measure
from brickyard.machine.pressure import node_memory_limit
from brickyard.runtime.node.documents import Prepare, Settings
from brickyard.sandbox import launcher
from brickyard.sandbox.view import PROGRAMS, WORKSPACE, View, write_etc, write_programs, write_unreadable, write_worker_python

PROGRESS = "starting the node's processes"
LIMIT_S = 300.0
RUNTIME_VARIABLE = "DATABRICKS_RUNTIME_VERSION"  # by which programs tell that they run on a cluster, for example 17.3
FULL_VARIABLE = "BRICKYARD_DBFS_FULL"  # as in runtime/node/trees.py
WORKSPACE_VARIABLE = "CLUSTER_WORKSPACE"  # names the workspace directory for code that runs with or without isolation
DAEMONS_MB = 1024  # what our own processes on the node may use beyond the memory of its type


async def _start(node: NodeState) -> None:
    await prepare(node)
    node.advance(Stage.STARTED)


async def prepare(node: NodeState) -> None:
    """Starts the JVM, unless only the node host can when the node takes its role."""
    wanted = node.assignment
    if (options := java_options(wanted)) is not None:
        asked: Prepare = {
            **settings(node, wanted.role), "heap_mb": heap_mb(wanted), "java_options": options, "env": node.variables,
            "warm": False, "cores": wanted.cores, "memory_mb": wanted.memory_mb,
        }  # fmt: skip
        await node.call("prepare", **asked)


async def start_host(node: NodeState, wanted: Assignment, manifest: RuntimeManifest) -> NodeHost:
    """Starts the isolated node host. Raises HostError."""
    config = node.config
    isolation = await node.owner.isolation()
    node.update(isolation=isolation.text)
    if config.isolation == "required" and isolation.kind == "none":
        raise HostError(
            "WORKSPACE_CONFIGURATION_ERROR",
            f"this workspace requires isolation, and this machine has none: {isolation.reason} "
            'Nothing was started. (Or set isolation = "auto" to run without.)',
        )
    node.shortages.starved("")
    node.group = await asyncio.to_thread(_limit, node, wanted)
    node.update(limits=node.group.text)
    host = node.new_host()
    node.walls = walls = launcher.choose(config.isolation, isolation, python=config.python)
    await asyncio.to_thread(environment.make, config, manifest, environ=os.environ)
    view = await asyncio.to_thread(_view, config, wanted, manifest, node.limits)
    command = [manifest.python, str(Path(config.node_code_dir, "start.py")), "host"]
    tmp = str(config.node_dir / "tmp") if walls.kind == "none" else "/tmp"  # noqa: S108 - the node's own, inside
    env = launcher.environment(config.instance_id, node_dir=config.node_dir, tmp=tmp, source=os.environ)
    env |= clock.environment()
    env[RUNTIME_VARIABLE] = wanted.runtime.partition(".x")[0]
    programs = str(config.directory / "bin") if walls.kind == "none" else PROGRAMS
    # Ours come first, such as a sudo that needs no rights; last, a library's script takes the place of no other program.
    env["PATH"] = f"{programs}:{env['PATH']}:{config.libraries_dir / 'bin'}"
    env["PIP_CONFIG_FILE"] = str(config.libraries_dir / "pip.conf")
    env["R_LIBS_USER"] = ":".join(map(str, environment.r_libraries(config)))
    env |= {tree.variable: tree.source if walls.kind == "none" else tree.target for tree in config.trees}
    if config.trees:
        env[FULL_VARIABLE] = str(config.dbfs_full)
    if config.workspaces_dir:
        env[WORKSPACE_VARIABLE] = str(config.workspace_link) if walls.kind == "none" else WORKSPACE
    if walls.kind == "none":
        await asyncio.to_thread(link_workspace, node, wanted)
    # By UUID: numbers depend on what else a program sees. Without isolation, only this keeps it from other nodes' GPUs.
    env["CUDA_VISIBLE_DEVICES"] = ",".join(config.gpu_uuids[: wanted.gpus])
    node.environment = {**env, "SPARK_HOME": manifest.spark_home, "JAVA_HOME": manifest.java_home}
    network = await node.networks.fresh(node)
    node.update(network=node.networks.text)
    fds = network.descriptors if network is not None else None
    await host.start(walls.command(command, view=view, cgroups=node.group.entries, network=fds), env, fds=fds or ())
    return host


def settings(node: NodeState, role: str) -> Settings:
    """Returns the settings for both `prepare` and `become`. Raises HostGone."""
    return {
        "manifest": node.manifest_document,
        "node_dir": str(node.config.node_dir),
        "role": role,
        "host": node.config.node_host,
        "private_host": node.config.ports_host,
    }


def _limit(node: NodeState, wanted: Assignment) -> cgroups.Group:
    memory = measure.machine_memory()
    asked = (wanted.memory_mb + DAEMONS_MB) << 20
    allowed = asked if memory is None else node_memory_limit(asked, memory.total)
    node.limits = cgroups.Limits(memory_mb=allowed >> 20, cores=wanted.cores)
    group = cgroups.create(node.config.instance_id, node.limits)
    record = node.config.directory / "cgroup.json"  # lets the provider remove the group if we cannot
    files.write_atomic(record, msgspec.json.encode(group))
    return group


def _view(config: AgentConfig, wanted: Assignment, manifest: RuntimeManifest, limits: cgroups.Limits) -> View:
    etc = config.directory / "etc"
    write_etc(etc, hostname=config.instance_id, host=config.node_host, home=str(config.node_dir / "home"))
    python = (
        str(config.libraries_dir),
        str(environment.pip_home(config)),
        *environment.index_paths(os.environ),
        cranrepo.directory(os.environ),
    )
    java, copy = Path(manifest.java_real, "bin", "java"), config.directory / "java"
    if java.is_file():
        write_unreadable(copy, java)
    notices = (str(config.dbfs_full.parent),) if config.trees else ()
    for notice in notices:
        Path(notice).mkdir(mode=0o700, exist_ok=True)
    node_dir, worker_python = config.instance_dir + "/node", config.directory / "spark-python"
    write_worker_python(worker_python, python=manifest.python, node_code=str(config.node_code_dir), node_dir=node_dir)
    write_programs(config.directory / "bin", python=manifest.python, node_code=str(config.node_code_dir))
    return View(
        hostname=config.instance_id,
        etc=str(etc),
        read_only=tuple(
            path
            for path in (manifest.home, manifest.python_base, manifest.java_real, config.node_code_dir, *python, *notices)
            if path
        ),
        unreadable=((str(copy), str(java)),) if java.is_file() else (),
        interpreter=manifest.python,
        node_dir=node_dir,
        environment=str(config.python_dir),
        worker_python=str(worker_python),
        programs=str(config.directory / "bin"),
        databricks=tuple((str(path), target) for path, target in config.databricks.items()),
        trees=tuple((tree.source, tree.target) for tree in config.trees),
        cluster_dir=str(config.cluster_dir(wanted.cluster_id) or ""),
        workspace_dir=str(config.workspace_of(wanted.cluster_id) or ""),
        hidden=tuple(path for path in (config.data_dir, config.storage_dir, config.instance_dir) if path),
        gpus=config.gpus[: wanted.gpus],
        shared_memory_mb=max(64, wanted.memory_mb // 2),
        processes=limits.tasks,
        cells=True,
    )


WORK = Work(_start, progress="starting Java", limit_s=LIMIT_S)
