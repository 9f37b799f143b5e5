"""Makes the document with which an engine starts an instance's agent on a machine of its choice (`agent/unit.py`)."""

from __future__ import annotations

from pathlib import Path

import msgspec

import brickyard
from brickyard.agent.unit import Unit
from brickyard.providers.base import LaunchRequest, Setup
from brickyard.providers.bootstrap import Machine, agent_config, environments_of
from brickyard.providers.engines.sections import EngineSection
from brickyard.storage.directory import Storage

_UNKNOWN = Path("/nonexistent")  # places that are filled in on the machine


def unit(request: LaunchRequest, setup: Setup, section: EngineSection, *, host: str = "", notice_s: float = 0.0) -> bytes:
    """The document, as JSON. It holds the instance's tokens: only the machine that runs the instance may see it. `notice_s`:
    for so long after the engine's SIGTERM, a worker may hand over what it has."""
    storage = Storage(Path(section.machine_storage_dir or setup.settings.storage_dir))
    machine = Machine(
        instance_dir=_UNKNOWN,
        cache_dir=_UNKNOWN,
        node_code_dir=_UNKNOWN,
        python="",
        logs_dir=storage.logs.root,
        storage_dir=storage.root,
        dbfs_dir=storage.dbfs,
        volumes_dir=storage.volumes,
        workspace_dir=storage.workspace,
        clusters_dir=storage.clusters,
        workspaces_dir=storage.workspaces,
        metastore_dir=storage.metastore,
    )
    known = environments_of(setup.runtimes)
    # Such a machine may be gone as soon as its nodes are, so nothing waits there for an idle hour.
    config = agent_config(request, machine, setup.settings, environments=known, notice_s=notice_s, train_runtimes=True)
    return msgspec.json.encode(
        Unit(
            version=brickyard.__version__,
            workspace_id=setup.workspace_id,
            machine_dir=section.machine_place,
            cache_dir=section.machine_cache_dir,
            storage_dir=str(storage.root),
            host=host,
            gpus=request.node_type.num_gpus,
            config=config,
        )
    )
