"""The settings of Slurm: the table [slurm], and what a node type named there may ask Slurm for."""

from __future__ import annotations

import ipaddress
import re
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from brickyard.domain.decoding import converter
from brickyard.providers.base import Setup, SetupError
from brickyard.providers.engines.sections import EngineSection
from brickyard.providers.slurm.jobs import minutes

_WORD = re.compile(r"[\w.:,/&|()\[\]*@=+!-]*")  # what Slurm's own names and constraints are made of


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a job asks of Slurm besides its size: `engine` of a named node type. Anything else is refused."""

    partition: str = ""
    constraint: str = ""
    account: str = ""
    qos: str = ""
    reservation: str = ""
    licenses: str = ""
    gres: str = ""  # empty: gpu:N for a type with GPUs
    nice: int = 0
    time_limit: str = ""  # in Slurm's way ("1-00:00:00"); empty: the longest that the partition allows
    memory: bool = True  # False: memory is not asked for, on clusters that do not hand it out


_to_options = converter(Options)


class SlurmSection(EngineSection, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[slurm]. Paths are the same on all machines."""

    python: str = ""  # with this version of Brickyard, on the machines; empty: the server's own
    prelude: str = ""  # lines of shell that a job runs before that Python
    partitions: str = ""  # whose machines are offered, comma-separated; empty: all that are up
    constraint: str = ""  # the next five are for all jobs, unless a named node type has its own
    account: str = ""
    qos: str = ""
    reservation: str = ""
    time_limit: str = ""
    address: Literal["route", "node"] = "route"  # nodes are reached at the address of their way to the server, or at NodeAddr
    bin_dir: str = ""  # of sbatch, squeue, scancel and sinfo; empty: found by PATH
    rest_url: str = ""  # slurmrestd: unix:/PATH or https://HOST:PORT; empty: the commands
    rest_user: str = ""  # for a token; empty: the server's user
    rest_token_file: str = ""  # with a JSON web token of that user, read anew for every call
    call_timeout_s: float = 20.0

    @property
    def wanted_partitions(self) -> tuple[str, ...]:
        return tuple(name.strip() for name in self.partitions.split(",") if name.strip())

    def options(self, node_type_id: str) -> Options:
        """What a job of this type asks for: the named type's own wishes, and those for all."""
        own = next((_options(each.engine) for each in self.node_types if each.node_type_id == node_type_id), Options())
        general = {
            name: getattr(self, name)
            for name in ("constraint", "account", "qos", "reservation", "time_limit")
            if not getattr(own, name)
        }
        return msgspec.structs.replace(own, **general)


def read_section(setup: Setup) -> SlurmSection:
    """Raises SetupError."""
    section = setup.section(SlurmSection, "slurm")
    if not setup.settings.internet or setup.settings.network == "isolated":
        raise SetupError(
            "provider slurm makes no networks: internet = false and network = isolated have no effect there. Leave "
            "them out, and use machines whose network your site limits."
        )
    for named in section.node_types:
        try:
            own = _options(named.engine)
        except msgspec.ValidationError as error:
            keys = ", ".join(Options.__struct_fields__)
            raise SetupError(
                f"slurm.node_types: engine of {named.node_type_id} is wrong: {error}. It may have: {keys}."
            ) from error
        _check(f"engine of {named.node_type_id}: ", own)
        if not named.num_cores.is_integer():
            raise SetupError(f"slurm.node_types: num_cores of {named.node_type_id} must be a whole number: Slurm gives CPUs.")
    _check("slurm.", section)
    if section.call_timeout_s <= 0:
        raise SetupError("slurm.call_timeout_s must be a number above 0.")
    _check_url(section)
    return section


def _options(engine: dict[str, object]) -> Options:
    return _to_options(engine)


def _check(place: str, given: Any) -> None:
    for name in ("partition", "constraint", "account", "qos", "reservation", "licenses", "gres"):
        value = getattr(given, name, "")
        if not _WORD.fullmatch(value) or value.startswith("-"):
            raise SetupError(f"{place}{name} is {value!r}; it must be one word, as Slurm's option of that name takes it.")
    try:
        minutes(given.time_limit)
    except ValueError as error:
        raise SetupError(f"{place}time_limit is {given.time_limit!r}; it must be like 90, 12:00:00 or 2-00:00:00.") from error


def _check_url(section: SlurmSection) -> None:
    if not section.rest_url:
        return
    parts = urlsplit(section.rest_url)
    if parts.scheme == "unix" and parts.path.startswith("/"):
        return
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/"):
        raise SetupError(f"slurm.rest_url is {section.rest_url!r}; it must be unix:/PATH or https://HOST:PORT.")
    if not section.rest_token_file:
        raise SetupError(
            "slurm.rest_url needs slurm.rest_token_file, unless it is a unix socket: `scontrol token` makes a token."
        )
    if parts.scheme == "http" and not _is_loopback(parts.hostname):
        raise SetupError("slurm.rest_url must be https, unix, or http on this machine: the token would travel in the clear.")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
