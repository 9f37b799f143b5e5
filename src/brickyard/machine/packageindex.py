"""Translates pip's package index configuration for uv, which reads none of it.

Standard library only: `requirements/environment.py` runs this before anything is installed.
"""

from __future__ import annotations

import configparser
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

_OPTIONS = ("index-url", "extra-index-url", "find-links", "cert")
PYPI = "https://pypi.org/simple"
_UV_URLS = ("UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS")
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


def index_urls(environ: Mapping[str, str]) -> list[str]:
    """Where uv, with `uv_environment`, looks for packages."""
    env = {**environ, **uv_environment(environ)}
    named = [word.partition("=")[2] if "=" in word.split(":")[0] else word for name in _UV_URLS for word in _words(env.get(name))]
    named += [text for text in _configured(environ) if "://" in text]
    defaults = () if env.get("UV_DEFAULT_INDEX") or env.get("UV_INDEX_URL") else (PYPI,)
    return [*defaults, *named]


def index_files(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The files and directories of this machine that uv reads to find packages: settings, certificates, indexes on the disk. The
    logins of index servers are among them (netrc)."""
    env = {**environ, **uv_environment(environ)}
    home = environ.get("HOME") or str(Path.home())
    named = [env.get("UV_CONFIG_FILE"), env.get("SSL_CLIENT_CERT"), environ.get("NETRC") or f"{home}/.netrc"]
    words = [
        *filter(None, named),
        *map(str, uv_files(environ)),
        *certificate_files(env),
        *index_urls(environ),
        *_configured(environ),
    ]
    paths = (unquote(urlsplit(word).path) if word.startswith("file:") else word for word in words)
    return tuple(dict.fromkeys(path for path in paths if path.startswith("/") and Path(path).exists()))


def certificate_files(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The certificate authorities that this machine's environment names."""
    found = (environ.get("SSL_CERT_FILE", ""), environ.get("SSL_CERT_DIR", ""))
    return tuple(path for path in found if path.startswith("/") and Path(path).exists())


def _words(value: str | None) -> list[str]:
    return (value or "").replace(",", " ").split()


def _configured(environ: Mapping[str, str]) -> list[str]:
    """Every text in uv's own configuration: addresses and paths of indexes may be among them."""
    import tomllib  # noqa: PLC0415 - only an agent that installs needs it

    found: list[str] = []
    own = environ.get("UV_CONFIG_FILE")
    for path in (Path(own),) if own else uv_files(environ):
        try:
            left: list[object] = [tomllib.loads(path.read_text())]
        except (OSError, ValueError):
            continue  # uv itself will report it
        while left:
            value = left.pop()
            if isinstance(value, str):
                found.append(value)
            else:
                left += value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return found


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
