"""Another server's local provider, in a process of its own: a line of JSON in, a line of JSON out.

`{"launch": [ID, ...]}`: all of them at once; `{"terminate": ID}`, `{"observe": true}`; `{"die": STEP}`: from then on it is killed
when it comes to that step of a launch ("directory" or "agent").
"""

from __future__ import annotations

import json
import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from brickyard.config.settings import Settings
from brickyard.domain.nodetypes import NodeType
from brickyard.providers.base import CapacityError, LaunchRequest
from brickyard.providers.capacity import Hardware
from brickyard.providers.local import LocalProvider
from brickyard.providers.local.launching import Launcher

TINY = NodeType(node_type_id="tiny", num_cores=1, memory_mb=256, category="test")
TOTAL = 8  # of them fit


def open_provider(data_dir: Path, storage_dir: Path, cache_dir: Path, server_file: Path, code: Path) -> LocalProvider:
    """A provider with room for TOTAL instances."""
    return LocalProvider(
        settings=Settings(data_dir=data_dir, storage_url=str(storage_dir), cache_dir=cache_dir, cpu_overcommit=4.0),
        server_file=server_file,
        node_types=(TINY,),
        machine=Hardware(TOTAL / 4, 32 * 1024, 0),
        environments={"fake": "fake"},
        node_code_dir=code,
    )


def launch(provider: LocalProvider, instance_id: str) -> str:
    """What became of it."""
    request = LaunchRequest(
        instance_id=instance_id, node_type=TINY, server_url="http://127.0.0.1:9", agent_token="a", server_token="s"
    )
    try:
        provider.launch(request)
    except CapacityError:
        return "full"
    return "launched"


def _answer(provider: LocalProvider, asked: dict[str, Any]) -> Any:
    if ids := asked.get("launch"):
        with ThreadPoolExecutor(len(ids)) as threads:
            return list(threads.map(lambda each: launch(provider, each), ids))
    if instance_id := asked.get("terminate"):
        provider.terminate(instance_id, reason="a test")
        return True
    if step := asked.get("die"):
        _die_at(step)
        return True
    return {each: seen.alive for each, seen in provider.observe().items()}


def _die_at(step: str) -> None:
    def die(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    if step == "directory":
        Path.rename = die  # type: ignore[assignment,method-assign] # this process is about to end
    else:
        Launcher.spawn = die  # type: ignore[method-assign] # likewise


def main() -> None:
    """Serve standard input."""
    provider = open_provider(*(Path(each) for each in sys.argv[1:]))
    for line in sys.stdin:
        print(json.dumps(_answer(provider, json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
