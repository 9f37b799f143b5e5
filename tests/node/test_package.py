"""What runs on a node is a package of its own: it needs nothing that a runtime lacks, and no module of a user gets in its way."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from brickyard.runtime import NODE_CODE
from tests.node.namesakes import FILES, MOUNT, OURS, namesakes
from tests.support.patience import PATIENCE_S

# What PySpark and a kernel need, and every runtime therefore has.
INSTALLED = {"IPython", "ipykernel", "jupyter_client", "py4j", "pyspark", "traitlets", "zmq"}


def imported(file: Path) -> Iterator[str]:
    """The packages that a file imports by absolute names."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield str(node.module).partition(".")[0]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(NODE_CODE)))
def test_only_what_a_runtime_has_is_imported(file: Path) -> None:
    assert set(imported(file)) <= INSTALLED | sys.stdlib_module_names


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(NODE_CODE)))
def test_the_oldest_interpreter_can_read_it(file: Path) -> None:
    ast.parse(file.read_text(), feature_version=(3, 8))


def test_no_name_is_python_s_own() -> None:
    """While `start.py` is read, its directory is the first on the path."""
    assert not OURS & sys.stdlib_module_names


def test_the_node_host_imports_no_module_of_a_user(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(namesakes(tmp_path))}
    command = [sys.executable, str(NODE_CODE / "start.py"), "host"]
    done = subprocess.run(
        command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), "it ends with its agent"


def test_the_directory_is_on_no_path() -> None:
    code = f"import sys; {MOUNT}; import _brickyard_node.protocol; print({str(NODE_CODE)!r} in sys.path)"
    done = subprocess.run([sys.executable, "-c", code], cwd=NODE_CODE, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_a_kernel_imports_ours_only_while_it_starts() -> None:
    """It takes them out of `sys.modules` before the first command: what a function imports later would not be found."""
    late = {
        (file.stem, outer.name)
        for file in (NODE_CODE / "kernel").glob("*.py")
        for outer in ast.walk(ast.parse(file.read_text()))
        if isinstance(outer, ast.FunctionDef)
        for node in ast.walk(outer)
        if isinstance(node, ast.ImportFrom) and node.level
    }
    assert late == {("main", "kind_of_spark")}
