"""A node's Python environment: a virtual environment of its own that lies over the runtime's packages.

    NODE/python/            the environment: what users' `pip install` writes; kernels and Spark's Python workers run it
    INSTANCE/libraries/     the cluster's libraries and pip's settings; only the agent writes here

R packages are at the same two places (`r_libraries`), where there is R.

`sys.path` has the environment's packages first, then the cluster's libraries, then the runtime's packages and their second layer
(`runtime/packages.py`), then pip. The runtime is shared and read-only. The node host runs the runtime's own interpreter, so no
user's package reaches it.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from brickyard.agent.config import AgentConfig
from brickyard.domain.runtimes import RuntimeManifest
from brickyard.machine import files
from brickyard.machine.packageindex import pip_options
from brickyard.runtime import NODE_CODE
from brickyard.runtime.layers import sites_of
from brickyard.runtime.packages import site_of, state_file

PTH = "_brickyard.pth"
LATE = "latepackages"  # of runtime/node
PINNED = ("pyspark", "py4j")  # another version could not speak to the cluster's Java side
PIP = '#!/bin/sh\nexec "{python}" -m pip "$@"\n'


def make(config: AgentConfig, manifest: RuntimeManifest, *, environ: Mapping[str, str]) -> None:
    """Makes the node's environment, empty. `environ`: where pip's configuration of this machine is looked up. Raises OSError."""
    make_libraries(config, manifest, environ)
    late = site_of(manifest)
    under = (config.libraries_dir / "site", runtime_packages(manifest), *sites_of(manifest), late, pip_home(config))
    make_venv(config.python_dir, manifest, under=tuple(path for path in under if path is not None))
    if late is not None:
        follow_late_packages(config, manifest, late)
    for path in r_libraries(config):  # R ignores a directory that is not there when it starts
        path.mkdir(parents=True)


def follow_late_packages(config: AgentConfig, manifest: RuntimeManifest, site: Path) -> None:
    """Has Python find the runtime's second layer of packages also if it is not there yet when a process begins."""
    packages = config.python_dir / "lib" / python_name(manifest) / "site-packages"
    source = (NODE_CODE / f"{LATE}.py").read_text()
    call = f"follow({str(site)!r}, {str(state_file(Path(manifest.home)))!r})"
    (packages / f"_brickyard_{LATE}.py").write_text(f"{source}\n\n{call}\n")
    with (packages / PTH).open("a") as file:
        file.write(f"import _brickyard_{LATE}\n")


def r_libraries(config: AgentConfig) -> tuple[Path, Path]:
    """Returns the directories of R packages besides the machine's own, in the order in which R looks into them (R_LIBS_USER):
    where users' `install.packages` installs, and the cluster's, where only the agent writes."""
    return config.python_dir / "lib" / "R", config.libraries_dir / "R"


def runtime_packages(manifest: RuntimeManifest) -> Path:
    """Returns the directory of the runtime's packages."""
    return Path(manifest.python).parent.parent / "lib" / python_name(manifest) / "site-packages"


def installed(packages: Path) -> dict[str, str]:
    """Returns the packages in a directory, by their normalised names, with their versions."""
    about = (path.name.removesuffix(".dist-info").rpartition("-") for path in packages.glob("*.dist-info"))
    return {normalized(name): version for name, _, version in about}


def normalized(name: str) -> str:
    """A package's name as it is compared."""
    return re.sub(r"[-_.]+", "-", name).lower()


def python_name(manifest: RuntimeManifest) -> str:
    """Returns the interpreter's name with its version: python3.11."""
    return "python" + ".".join(manifest.python_version.split(".")[:2])


def make_libraries(config: AgentConfig, manifest: RuntimeManifest, environ: Mapping[str, str]) -> None:
    top = config.libraries_dir
    files.remove_tree(top)
    for path in (top, top / "site", top / "bin"):
        path.mkdir(mode=0o755)
    found = installed(runtime_packages(manifest))
    (top / "constraints.txt").write_text("".join(f"{name}=={found[name]}\n" for name in PINNED if name in found))
    (top / "pip.conf").write_text(pip_conf(pip_options(environ), constraints=top / "constraints.txt"))


def make_venv(top: Path, manifest: RuntimeManifest, *, under: tuple[Path, ...]) -> None:
    """Makes a virtual environment without running anything: the module venv would take a third of a second. `under`: directories
    whose packages it has besides its own."""
    packages = top / "lib" / python_name(manifest) / "site-packages"
    packages.mkdir(parents=True)
    (top / "bin").mkdir()
    python = top / "bin" / "python"
    python.symlink_to(manifest.python)
    for name in ("python3", python_name(manifest)):
        if not (top / "bin" / name).is_symlink():
            (top / "bin" / name).symlink_to("python")
    for name in ("pip", "pip3"):
        (top / "bin" / name).write_text(PIP.format(python=python))
        (top / "bin" / name).chmod(0o755)
    base = base_programs(Path(manifest.python))
    (top / "pyvenv.cfg").write_text(f"home = {base}\ninclude-system-site-packages = false\nversion = {manifest.python_version}\n")
    # `addsitedir` also reads the .pth files there, which a plain line would not.
    lines = "".join(f"import site; site.addsitedir({str(path)!r})\n" for path in under)
    (packages / PTH).write_text(lines)


def base_programs(python: Path) -> str:
    """Returns the directory of the interpreter below a virtual environment's python, under the name that its environment uses."""
    try:
        lines = (python.parent.parent / "pyvenv.cfg").read_text().splitlines()
    except OSError:
        lines = []
    values = {key.strip(): value.strip() for key, _, value in (line.partition("=") for line in lines)}
    return values.get("home") or str(python.resolve().parent)


# ── pip ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def pip_home(config: AgentConfig) -> Path:
    """Returns a directory that holds pip and nothing else; makes it, once for all nodes of this machine."""
    spec = importlib.util.find_spec("pip")
    assert spec is not None and spec.origin is not None  # noqa: S101 - it is one of our dependencies
    package = Path(spec.origin).parent
    about = next(package.parent.glob("pip-*.dist-info"))
    home = Path(config.cache_dir, "tools", about.name.removesuffix(".dist-info"))
    if not home.is_dir():
        home.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home.parent) as draft:
            for source in (package, about):
                shutil.copytree(source, Path(draft, "pip", source.name), ignore=shutil.ignore_patterns("__pycache__"))
            try:
                Path(draft, "pip").rename(home)
            except OSError:
                if not home.is_dir():  # otherwise another agent was faster
                    raise
    return home


def pip_conf(options: Mapping[str, str], *, constraints: Path) -> str:
    """Returns pip's settings for users: the machine's package index, without a name or password that its address may hold."""
    plain = {name: " ".join(map(without_user, value.split())) for name, value in options.items()}
    settings = {"constraint": str(constraints), "disable-pip-version-check": "true", **plain}
    return "[global]\n" + "".join(f"{name} = {value}\n" for name, value in settings.items())


def without_user(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])) if "@" in parts.netloc else url


def index_paths(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the files and directories of this machine that its package index consists of, which nodes must see."""
    found = []
    for value in pip_options(environ).values():
        for word in value.split():
            path = urlsplit(word).path if word.startswith("file:") else word
            if path.startswith("/") and os.path.exists(path):  # noqa: PTH110 - a plain string throughout
                found.append(path)
    return tuple(found)
