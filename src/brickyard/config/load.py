"""Where settings come from: defaults, the TOML file, BRICKYARD_* variables and options, in that order."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from brickyard.config import providernames
from brickyard.config.checks import check, kind, wrong
from brickyard.config.servicelinks import without_links
from brickyard.config.settings import TABLES, ConfigError, Settings, declared

MACHINE_FILE = Path("/etc/brickyard/brickyard.toml")  # where a service has its settings, and its commands find them
FORMER = {  # settings of earlier versions: what to use instead
    "tls_self_signed": "use tls, which serves HTTPS and Spark Connect with a certificate of the workspace's own authority",
}


def load(
    *, config_file: Path | None = None, environ: Mapping[str, str] | None = None, options: Mapping[str, Any] | None = None
) -> Settings:
    """Settings merged from all sources. An option that is None counts as not given. Raises ConfigError."""
    environ = without_links(os.environ if environ is None else environ)
    values, sources = _gather(config_file, environ, options or {})
    _gather_section(values, environ)
    for name, setting in declared().items():
        if name in values:
            try:
                msgspec.convert(values[name], setting.annotation, strict=False, dec_hook=_decode)
            except msgspec.ValidationError as error:
                raise wrong(name, values[name], sources, kind(setting.annotation)) from error
    try:
        settings = msgspec.convert(values, Settings, strict=False, dec_hook=_decode)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{error}. Settings: {', '.join(Settings.names())}.") from error
    check(settings, sources)
    paths = {name: getattr(settings, name) for name, setting in declared().items() if setting.type is Path}
    resolved: dict[str, Any] = {name: path and path.expanduser().resolve() for name, path in paths.items()}
    if settings.storage_url:
        resolved["storage_url"] = str(settings.storage_dir.resolve())
    return msgspec.structs.replace(settings, **resolved)


def file_of(given: Path | None, environ: Mapping[str, str] | None = None) -> Path | None:
    """The TOML file that is read: the given one, or that of BRICKYARD_CONFIG, or the machine's, if this user may read it: who
    may not does not look after the service."""
    environ = os.environ if environ is None else environ
    if given is not None:
        return given
    if named := environ.get("BRICKYARD_CONFIG"):
        return Path(named)
    return MACHINE_FILE if os.access(MACHINE_FILE, os.R_OK) else None


def source(
    name: str,
    *,
    config_file: Path | None = None,
    environ: Mapping[str, str] | None = None,
    options: Mapping[str, Any] | None = None,
) -> str:
    """Where a setting's value comes from: an option, a variable, a key of a file, or "the default". Raises ConfigError."""
    environ = without_links(os.environ if environ is None else environ)
    return _gather(config_file, environ, options or {})[1].get(name, "the default")


def _gather(
    config_file: Path | None, environ: Mapping[str, str], options: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Two dicts: name -> value, and name -> source of that value."""
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    config_file = file_of(config_file, environ)
    if config_file is not None:
        try:
            values.update(tomllib.loads(config_file.read_text()))
        except OSError as error:
            raise ConfigError(f"cannot read {config_file}: {error.strerror}. Give another file with --config.") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{config_file} is not valid TOML: {error}") from error
        tables = {
            name: values.pop(name) for name in [*values] if isinstance(values[name], dict) and not providernames.unknown(name)
        }
        for name in values:
            sources[name] = f"{name} in {config_file}"
            if name not in Settings.names():
                _check_former(name, sources[name])
                near = difflib.get_close_matches(name, Settings.names(), 1)
                meant = f"Did you mean {near[0]}? " if near else ""
                raise ConfigError(f"{sources[name]} is not a setting. {meant}Settings: {', '.join(Settings.names())}.")
        values[TABLES] = tables
    for name in FORMER:
        if environ.get(f"BRICKYARD_{name.upper()}"):
            _check_former(name, f"BRICKYARD_{name.upper()}")
    for setting in declared().values():
        if value := environ.get(setting.variable):
            values[setting.name], sources[setting.name] = value, setting.variable
        if (option := options.get(setting.name)) is not None:
            values[setting.name], sources[setting.name] = option, setting.option
    return values, sources


def _check_former(name: str, source: str) -> None:
    """Raises ConfigError for a setting of earlier versions: without it, the server would do something else than before."""
    if name in FORMER:
        raise ConfigError(f"{source} is no setting any more: {FORMER[name]}.")


def _gather_section(values: dict[str, Any], environ: Mapping[str, str]) -> None:
    """Adds the providers' variables: our prefix, a provider's name and the key's, as in RAY_ADDRESS for `address` in [ray]."""
    names = providernames.listed(str(values.get("provider", "")))
    ours = {setting.variable for setting in declared().values()}
    sections = {name: {**section} for name, section in values.get(TABLES, {}).items()}
    for variable, value in environ.items():
        if value and variable.startswith("BRICKYARD_") and variable not in ours:
            found = providernames.of_variable(variable.removeprefix("BRICKYARD_"), names)
            if found is not None:
                sections.setdefault(found[0], {})[found[1]] = value
    if sections:
        values[TABLES] = sections


def _decode(kind: type, value: Any) -> Any:
    if kind is Path and isinstance(value, str | Path):
        return Path(value)
    raise msgspec.ValidationError(f"expected {kind.__name__}, got {value!r}")
