"""A node's Python environment, made without Spark: what it sees, and in which order."""

from __future__ import annotations

import importlib.metadata
import subprocess
from pathlib import Path

import msgspec
import pytest

from brickyard.agent.config import AgentConfig
from brickyard.agent.libraries import environment
from brickyard.domain.runtimes import RuntimeManifest
from brickyard.machine import files
from tests.agent.runtime import make_config, make_runtime
from tests.support.packages import make_index, make_wheel


@pytest.fixture
def config(tmp_path: Path) -> AgentConfig:
    return make_config(tmp_path)


@pytest.fixture
def manifest(tmp_path: Path) -> RuntimeManifest:
    return make_runtime(tmp_path)


def python(config: AgentConfig, *arguments: str) -> str:
    done = subprocess.run(
        [config.python_dir / "bin" / "python", *arguments], capture_output=True, text=True, check=False,
        env={"PIP_CONFIG_FILE": str(config.libraries_dir / "pip.conf"), "HOME": str(config.node_dir)},
    )  # fmt: skip
    return (done.stdout + done.stderr).strip()


def test_pip_installs_over_the_runtimes_packages(config: AgentConfig, manifest: RuntimeManifest, tmp_path: Path) -> None:
    url = make_index(
        tmp_path,
        make_wheel(tmp_path, "base", "2.0"),
        make_wheel(tmp_path, "pyspark", "2.0"),
        make_wheel(tmp_path, "tool", requires=["base"], scripts={"tool": "tool:VERSION.upper"}),
    )
    environment.make(config, manifest, environ={"PIP_INDEX_URL": url, "PIP_CONFIG_FILE": "/dev/null"})
    assert python(config, "-c", "import base, sys; print(base.VERSION, sys.prefix)") == f"1.0 {config.python_dir}"
    assert python(config, "-m", "pip", "install", "tool").endswith("Successfully installed tool-1.0"), "base is there already"
    assert (config.python_dir / "bin" / "tool").is_file()
    assert python(config, "-m", "pip", "install", "-U", "base").endswith("Successfully installed base-2.0")
    assert python(config, "-c", "import base; print(base.VERSION)") == "2.0"
    assert (config.libraries_dir / "constraints.txt").read_text() == "pyspark==1.0\n"
    assert "(constraint) pyspark==1.0" in python(config, "-m", "pip", "install", "pyspark==2.0"), (
        "another PySpark cannot speak to this Spark"
    )
    python(config, "-m", "pip", "uninstall", "-y", "base")
    assert python(config, "-c", "import base; print(base.VERSION)") == "1.0", "the runtime's own is still there"


def test_the_clusters_libraries_lie_between_the_users_and_the_runtimes(config: AgentConfig, manifest: RuntimeManifest) -> None:
    environment.make(config, manifest, environ={"PIP_CONFIG_FILE": "/dev/null"})
    (config.libraries_dir / "site" / "base.py").write_text("VERSION = 'library'\n")
    assert python(config, "-c", "import base; print(base.VERSION)") == "library"
    (next((config.python_dir / "lib").glob("python*")) / "site-packages" / "base.py").write_text("VERSION = 'user'\n")
    assert python(config, "-c", "import base; print(base.VERSION)") == "user"
    files.remove_tree(config.python_dir)
    environment.make(config, manifest, environ={"PIP_CONFIG_FILE": "/dev/null"})
    assert python(config, "-c", "import base; print(base.VERSION)") == "1.0", "a new environment holds nothing of the old one"


def test_pip_is_kept_once_for_all_nodes(config: AgentConfig) -> None:
    home = environment.pip_home(config)
    assert home.name == f"pip-{importlib.metadata.version('pip')}"
    before = (home / "pip" / "__init__.py").stat().st_ino
    other = msgspec.structs.replace(config, instance_dir=config.instance_dir + "-2")
    assert environment.pip_home(other) == home
    assert (home / "pip" / "__init__.py").stat().st_ino == before
    assert [each.name for each in home.parent.iterdir()] == [home.name], "no draft is left"


def test_pips_settings_never_hold_a_password() -> None:
    text = environment.pip_conf(
        {"index-url": "https://me:secret@index.test/simple", "find-links": "/wheels"}, constraints=Path("/c.txt")
    )
    assert text.splitlines() == [
        "[global]", "constraint = /c.txt", "disable-pip-version-check = true", "index-url = https://index.test/simple",
        "find-links = /wheels",
    ]  # fmt: skip
