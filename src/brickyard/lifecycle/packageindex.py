"""Translates pip's package index configuration for uv, which reads none of it.

Standard library only: `requirements/environment.py` runs this before anything is installed.
"""

from __future__ import annotations

import configparser
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

_OPTIONS = ("index-url", "extra-index-url", "find-links", "cert")
_UV_INDEX = ("UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_CONFIG_FILE")


def uv_environment(environ: Mapping[str, str], *, files: Iterable[Path] | None = None) -> dict[str, str]:
    """The `UV_*` variables to add to `environ` so that uv installs from where pip would. Existing uv settings win.

    `files` are pip's configuration files, lowest precedence first (default: the usual places); unreadable ones count as empty.
    """
    pip = pip_options(environ, files=files)
    found: dict[str, str] = {}
    if not any(environ.get(name) for name in _UV_INDEX) and not any(path.is_file() for path in uv_files(environ)):
        if "index-url" in pip:
            found["UV_DEFAULT_INDEX"] = pip["index-url"]
        if "extra-index-url" in pip:
            found["UV_INDEX"] = pip["extra-index-url"]
            found["UV_INDEX_STRATEGY"] = "unsafe-best-match"  # like pip: the newest version of all indexes
    if "find-links" in pip:
        found["UV_FIND_LINKS"] = ",".join(pip["find-links"].split())
    if "cert" in pip:
        found["SSL_CERT_FILE"] = pip["cert"]
    return {name: value for name, value in found.items() if not environ.get(name)}


def pip_files(environ: Mapping[str, str]) -> list[Path]:
    """pip's configuration files, lowest precedence first."""
    own = environ.get("PIP_CONFIG_FILE", "")
    if own == os.devnull:
        return []
    home = Path(environ.get("HOME") or Path.home())
    shared = environ.get("XDG_CONFIG_DIRS") or "/etc/xdg"
    files = [Path(folder) / "pip" / "pip.conf" for folder in shared.split(":") if folder]
    files += [Path("/etc/pip.conf"), home / ".pip" / "pip.conf", _config_home(environ) / "pip" / "pip.conf"]
    files += [Path(sys.base_prefix) / "pip.conf", Path(sys.prefix) / "pip.conf"]
    return [*files, Path(own)] if own else files


def _config_home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("XDG_CONFIG_HOME") or Path(environ.get("HOME") or Path.home()) / ".config")


def uv_files(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """uv's own configuration files."""
    return (_config_home(environ) / "uv" / "uv.toml", Path("/etc/uv/uv.toml"))


def pip_options(environ: Mapping[str, str], *, files: Iterable[Path] | None = None) -> dict[str, str]:
    """Where pip is configured to install from: index-url, extra-index-url, find-links, cert. `files`: as above."""
    options: dict[str, str] = {}
    for path in pip_files(environ) if files is None else files:
        parser = configparser.RawConfigParser()
        try:
            parser.read(path)
        except (configparser.Error, UnicodeDecodeError, OSError):
            continue  # pip itself will report it; an unreadable file must not stop the server
        for section in ("global", "install"):
            for name in _OPTIONS:
                if parser.has_option(section, name) and (value := " ".join(parser.get(section, name).split())):
                    options[name] = value
    for name in _OPTIONS:
        if from_environ := environ.get("PIP_" + name.upper().replace("-", "_")):
            options[name] = from_environ
    return options
