"""A node host that starts kernels in cells and nothing else: `python cell_host.py NODE_CODE NODE_DIR`. One JSON line in, one out:
`start` runs code with Python in a cell of its own, `here` runs it in the node host's own cell, beside the node host."""

from __future__ import annotations

import importlib
import json
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    node_code, node_dir = sys.argv[1], Path(sys.argv[2])
    runpy.run_path(f"{node_code}/start.py")["mount"]()
    importlib.import_module("_brickyard_node.processes").hide_memory()
    cells = importlib.import_module("_brickyard_node.contexts.process").Cells.inherited()
    running: dict[int, tuple[Any, Any]] = {}

    def start(code: str, env: dict[str, str]) -> dict[str, Any]:
        home = cells.directories(node_dir)
        with (home.root / "log").open("wb") as log:
            argv = [sys.executable, "-c", code]
            process = cells.start(home, argv, {**os.environ, **env}, node_dir=node_dir, stdin=subprocess.DEVNULL, log=log)
        number = len(running) + 1
        running[number] = (process, home)
        return {"number": number, "inside": str(home.inside)}

    def told(number: int) -> dict[str, Any]:
        process, home = running[number]
        return {"said": (home.root / "log").read_text(), "code": process.poll()}

    def plant(name: str, target: str) -> dict[str, Any]:
        """Put a link in the place of one of a coming kernel's directories."""
        made = cells.directories(node_dir)
        shutil.rmtree(made.root / name)
        (made.root / name).symlink_to(target)
        with (made.root / "log").open("wb") as log:
            argv = [sys.executable, "-c", "import os; print(os.listdir('/tmp'))"]
            process = cells.start(made, argv, dict(os.environ), node_dir=node_dir, stdin=subprocess.DEVNULL, log=log)
        process.wait()
        return {"said": (made.root / "log").read_text(), "code": process.poll()}

    def raw(data: str, fds: int) -> dict[str, Any]:
        """Anything at all for the warden."""
        null = os.open(os.devnull, os.O_RDWR)
        if fds:
            importlib.import_module("socket").send_fds(cells._socket, [data.encode()], [null] * fds)
        else:
            cells._socket.send(data.encode())
        os.close(null)
        return {}

    def here(code: str) -> dict[str, Any]:
        argv = [sys.executable, "-c", code]
        found = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        return {"said": found.stdout + found.stderr}

    def door() -> dict[str, Any]:
        made = importlib.import_module("_brickyard_node.pythonworkers.door").Door
        made(cells, python=sys.executable, node_dir=node_dir, log=print).open()
        return {}

    operations: dict[str, Any] = {
        "door": door,
        "start": start, "told": told, "plant": plant, "raw": raw, "here": here,
        "kill": lambda number: running[number][0].kill(),
        "interrupt": lambda number: running[number][0].interrupt(),
        "expendable": cells.expendable,
        "end": lambda: os._exit(7),
    }  # fmt: skip
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(operations[request.pop("op")](**request) or {}), flush=True)


if __name__ == "__main__":
    main()
