"""A real cluster for the contract suite. BRICKYARD_TEST_KUBECONFIG: its kubeconfig. BRICKYARD_TEST_KUBERNETES: further settings
of the provider, as JSON; `image` must have this checkout's version, and `server_url` is how pods reach this machine.
BRICKYARD_TEST_STORAGE: where this machine has the claim's storage."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

from brickyard.config.settings import Settings
from brickyard.providers.base import Setup
from brickyard.providers.kubernetes import open_provider
from brickyard.providers.kubernetes.provider import KubernetesProvider
from brickyard.runtime.catalogue import rows
from brickyard.testing.contract import Bench

WORKSPACE = "9876543210987654"


@contextlib.contextmanager
def real_bench(tmp_path: Path) -> Iterator[Bench]:
    more = json.loads(os.environ.get("BRICKYARD_TEST_KUBERNETES", "{}"))
    url = more.pop("server_url", "http://192.0.2.1:8080")
    table = {"kubeconfig": os.environ["BRICKYARD_TEST_KUBECONFIG"], "run_as_user": os.geteuid() or 1000, **more}
    storage = Path(os.environ.get("BRICKYARD_TEST_STORAGE", str(tmp_path)))
    (storage / "workspace.id").write_text(f"{WORKSPACE}\n")
    settings = Settings(
        data_dir=tmp_path, cache_dir=tmp_path, storage_url=str(storage), provider="kubernetes", sections={"kubernetes": table}
    )
    setup = Setup(settings=settings, server_url=url, workspace_id=WORKSPACE, runtimes=rows())
    made: list[KubernetesProvider] = []

    def reopen() -> KubernetesProvider:
        made.append(open_provider(setup))
        return made[-1]

    try:
        yield Bench(reopen(), reopen=reopen, server_url=url, patience_s=180.0)
    finally:
        for each in made:
            each.close(keep_nodes=True)
