"""A workspace's settings: one frozen struct, from defaults, the TOML file, BRICKYARD_* variables and options, in that order."""

from __future__ import annotations

import difflib
import ipaddress
import math
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from brickyard.config import providernames
from brickyard.config.servicelinks import without_links
from brickyard.config.urls import is_database, is_origin
from brickyard.domain.printable import hiding
from brickyard.domain.ratelimits import rates
from brickyard.domain.secrets import key_entries
from brickyard.domain.signin import Provider, group_names, trusted_url, words
from brickyard.storage import urls

_SECRET = ("admin_token", "metrics_token", "database_url", "encryption_key", "oidc_client_secret")


_TABLES = "sections"  # the one field that is no setting itself


class ConfigError(Exception):
    """A setting is wrong. The message is one line: which setting, why, and what a correct value is."""


CONNECT_PORT = 15002  # Spark's own
MAX_NODES = 10_000  # of max_nodes: what drivers report of their workers has as many at most
SESSION_IDLE_S = 300.0  # the shortest session_idle_s


def default_data_dir() -> Path:
    """`$XDG_DATA_HOME/brickyard`."""
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "brickyard"


def default_cache_dir() -> Path:
    """`$XDG_CACHE_HOME/brickyard`: runtimes, shared by data directories."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "brickyard"


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every field but `sections` is also a key of the TOML file and, in upper case with the prefix BRICKYARD_, an environment
    variable."""

    @staticmethod
    def names() -> tuple[str, ...]:
        """The names of all settings."""
        return tuple(name for name in Settings.__struct_fields__ if name != _TABLES)

    host: str = "127.0.0.1"
    port: int = 8080  # 0 picks a free one
    data_dir: Path = msgspec.field(default_factory=default_data_dir)
    cache_dir: Path = msgspec.field(default_factory=default_cache_dir)
    database_url: str = ""  # empty: SQLite in the data directory
    database_wait_s: float = 60.0  # a start waits so long until something listens at the database's address
    storage_url: str = ""  # a directory that all servers and nodes of the workspace can reach; empty: the data directory
    public_url: str = ""  # the URL that agents on other machines call; empty: the address that the server listens on
    agent_port: int | None = (
        None  # this server's TLS port for agents on other machines; None: that of public_url; 0: a proxy has it
    )
    agent_ca: Path | None = None  # PEM: what such agents trust where a proxy has the certificate; None: what their machine trusts
    provider: str = "local"  # names from `config/providernames.py`, comma-separated, the default one first
    simulated_knobs: Path | None = None  # a TOML file that controls the simulated provider; re-read while the server runs
    isolation: Literal["auto", "required", "off"] = "auto"
    network: Literal["auto", "isolated", "shared"] = "auto"  # separate networks for a cluster's nodes. auto: where possible;
    # isolated: required, else nothing starts; shared: never
    internet: bool = True  # whether code on clusters with a separate network can reach other machines
    network_allow: str = ""  # ADDRESS:PORT of this machine that such code can reach anyway, comma-separated
    machine_credentials: bool = True  # whether object stores get the machine's own credentials where a cluster has none
    machine_credentials_endpoints: str = ""  # URLs to which they may go although a user names them, comma-separated
    admin_user: str = "admin@brickyard.local"
    admin_token: str = ""  # empty: generated at the first start and stored in the data directory
    encryption_key: str = ""  # 64 hex digits; more keys after a comma only decrypt. Empty: the file secrets.key in the storage
    cpu_overcommit: float = 16.0  # logical cores offered per core of the machine, so that cloud sizes fit on a laptop
    memory_overcommit: float = 4.0  # this many nodes may each be promised the whole machine's memory (docs/resources.md)
    memory_guard_share: float = 0.5  # a node that takes less of its share of memory is not ended when the machine runs out of it
    min_free_disk_gb: float = 1.0  # at most a twentieth of the disk; below this, the node that uses the most is ended
    node_disk_gb: float | None = None  # limit for one node's files; None: half of the disk
    dbfs_gb: float | None = None  # limit for the workspace's files; None: half of the disk
    snapshot_gb: float | None = None  # limit for the files in one snapshot of a workspace directory; None: half of the disk
    snapshots_gb: float | None = None  # limit for all snapshots together, compressed; None: half of the disk
    snapshot_days: float = 0.0  # snapshots are removed after this time; 0: when somebody deletes them
    orphan_grace_s: float = 600.0  # agents that hear nothing for this long stop their node and exit
    agent_silence_s: float = 60.0  # an agent that is silent for this long counts as lost
    spark_silence_s: float = 60.0  # Spark silent for this long hangs: a driver is reported, a worker replaced
    driver_give_up_s: float = 300.0  # a driver that hangs for this long ends its cluster
    log_delivery_s: float = 300.0  # between two deliveries of a cluster's logs (cluster_log_conf)
    launch_timeout_s: float = 1200.0  # from request to READY, including installation of the runtime
    init_script_timeout_s: float = 600.0  # an init script that runs for longer has failed
    autoscale_up_after_s: float = 1.0  # tasks that have waited this long add workers to an autoscaling cluster
    autoscale_down_after_s: float = 150.0  # workers idle for this long are removed; on a job cluster after 40 s at most
    max_nodes: int = 1_000  # the most workers of one cluster, and instances of one instance pool
    photon: Literal["refuse", "standard"] = "refuse"  # what a cluster that asks for Photon gets: an error or Spark's own engine
    policy_checks: Literal["strict", "lax"] = (
        "strict"  # when a policy with mistakes is refused: when it is saved, or when it is used
    )
    task_files_dir: Path | None = None  # files below this directory may run as tasks (file:/...); None: no local files may
    node_prices: Path | None = None  # a TOML file with prices of node types; None: the catalogue's list prices
    background_training: bool = True  # runtimes are trained when the machine has nothing else to do
    default_runtime: str = ""  # empty: the newest Spark 4 LTS of the catalogue
    keep_nodes: bool = False
    ends_with: int | None = None  # a process id: when it ends, the server stops and ends its nodes; None: no such process
    connect_port: int | None = None  # Spark Connect; None: 15002 if free, off with the simulated provider; 0: off
    connect_start_clusters: bool = False  # a connection to a terminated cluster starts it
    session_idle_s: float = 8 * 3600.0  # a browser session that is not used for this long ends
    session_lifetime_s: float = 7 * 86_400.0  # every browser session ends then
    oidc_issuer: str = ""  # an external OpenID Connect provider for people (docs/authentication.md); empty: none
    oidc_client_id: str = ""
    oidc_client_secret: str = ""  # empty: this server is a public client of the provider, with PKCE alone
    oidc_name: str = ""  # what people know the provider by; empty: the issuer's host
    oidc_scopes: str = "openid profile email"
    oidc_user_claim: str = "email"  # the claim that is the user's name here
    oidc_domains: str = ""  # domains of user names that may log in with the provider; empty: all
    oidc_create_users: bool = False  # at their first log-in; otherwise only known users may log in
    oidc_single_log_out: bool = False  # log-out here leads to the provider's log-out
    oidc_groups_claim: str = "groups"
    oidc_groups: str = ""  # VALUE=GROUP, comma-separated: who has the value in that claim is in the group, and nobody else
    port_addresses: str = (
        ""  # IP addresses of this machine, besides loopback, on which tcp port mappings may listen, comma-separated
    )
    host_names: str = ""  # comma-separated names by which clients call the servers, beside addresses and localhost; empty: any
    trusted_proxies: str = ""  # comma-separated addresses or networks whose X-Forwarded-For and -Proto are trusted; empty: none
    rate_limits: str = ""  # off, or changes of the documented ones, like "dbfs=100, *=50" (domain/ratelimits.py)
    audit_log_days: float = 365.0  # how long entries of the audit log are kept
    log_days: float = 30.0  # how long the logs that nodes leave are kept
    metrics_token: str = ""  # bearer token required for /metrics; empty: none required
    tls_cert: Path | None = None  # PEM, for the Spark Connect port
    tls_key: Path | None = None
    tls_self_signed: bool = False  # generate a certificate for this machine in the data directory
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["console", "json"] = "console"
    sections: dict[str, dict[str, Any]] = {}  # settings of providers, by their names: the TOML file's tables, like [ray]

    @property
    def providers(self) -> tuple[str, ...]:
        """The names in `provider`, the default one first."""
        return providernames.listed(self.provider)

    @property
    def storage_dir(self) -> Path:
        """The directory of `storage_url`."""
        return urls.directory(self.storage_url) or self.data_dir

    def __repr__(self) -> str:
        """Without secrets, since it may get into a log or a report."""
        return hiding(self, _SECRET)

    @property
    def oidc(self) -> Provider | None:
        """The external provider for people. Raises ValueError for wrong `oidc_groups`."""
        if not self.oidc_issuer:
            return None
        return Provider(
            issuer=self.oidc_issuer,
            client_id=self.oidc_client_id,
            client_secret=self.oidc_client_secret,
            name=self.oidc_name,
            scopes=words(self.oidc_scopes),
            user_claim=self.oidc_user_claim,
            domains=words(self.oidc_domains.lower()),
            create_users=self.oidc_create_users,
            single_log_out=self.oidc_single_log_out,
            groups_claim=self.oidc_groups_claim,
            groups=group_names(self.oidc_groups),
        )

    @property
    def allowed_port_addresses(self) -> tuple[str, ...]:
        """The entries of `port_addresses`, in their usual form. Raises ValueError."""
        return tuple(str(ipaddress.ip_address(each.strip())) for each in self.port_addresses.split(",") if each.strip())

    @property
    def credential_endpoints(self) -> tuple[str, ...]:
        """The entries of `machine_credentials_endpoints`."""
        return tuple(url.strip() for url in self.machine_credentials_endpoints.split(",") if url.strip())

    @property
    def allowed_places(self) -> tuple[str, ...]:
        """The entries of `network_allow`."""
        return tuple(place.strip() for place in self.network_allow.split(",") if place.strip())


def load(
    *, config_file: Path | None = None, environ: Mapping[str, str] | None = None, options: Mapping[str, Any] | None = None
) -> Settings:
    """Settings merged from all sources. An option that is None counts as not given. Raises ConfigError."""
    environ = without_links(os.environ if environ is None else environ)
    values, sources = _gather(config_file, environ, options or {})
    _gather_section(values, environ)
    for field in msgspec.structs.fields(Settings):
        if field.name in values:
            try:
                msgspec.convert(values[field.name], field.type, strict=False, dec_hook=_decode)
            except msgspec.ValidationError as error:
                raise _wrong(field.name, values[field.name], sources, _kind(field.type)) from error
    try:
        settings = msgspec.convert(values, Settings, strict=False, dec_hook=_decode)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{error}. Settings: {', '.join(Settings.names())}.") from error
    _check(settings, sources)
    places = {
        name: getattr(settings, name)
        for name in (
            "data_dir",
            "cache_dir",
            "task_files_dir",
            "node_prices",
            "simulated_knobs",
            "tls_cert",
            "tls_key",
            "agent_ca",
        )
    }
    resolved: dict[str, Any] = {name: path and path.expanduser().resolve() for name, path in places.items()}
    if settings.storage_url:
        resolved["storage_url"] = str(settings.storage_dir.resolve())
    return msgspec.structs.replace(settings, **resolved)


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
    if config_file is None and environ.get("BRICKYARD_CONFIG"):
        config_file = Path(environ["BRICKYARD_CONFIG"])
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
                near = difflib.get_close_matches(name, Settings.names(), 1)
                meant = f"Did you mean {near[0]}? " if near else ""
                raise ConfigError(f"{sources[name]} is not a setting. {meant}Settings: {', '.join(Settings.names())}.")
        values[_TABLES] = tables
    for name in Settings.names():
        variable, option = f"BRICKYARD_{name.upper()}", options.get(name)
        if value := environ.get(variable):
            values[name], sources[name] = value, variable
        if option is not None:
            values[name], sources[name] = option, f"--{name.replace('_', '-')}"
    return values, sources


def _gather_section(values: dict[str, Any], environ: Mapping[str, str]) -> None:
    """Adds the providers' variables: our prefix, a provider's name and the key's, as in RAY_ADDRESS for `address` in [ray]."""
    names = providernames.listed(str(values.get("provider", "")))
    ours = {f"BRICKYARD_{field.upper()}" for field in Settings.names()}
    sections = {name: {**section} for name, section in values.get(_TABLES, {}).items()}
    for variable, value in environ.items():
        if value and variable.startswith("BRICKYARD_") and variable not in ours:
            found = providernames.of_variable(variable.removeprefix("BRICKYARD_"), names)
            if found is not None:
                sections.setdefault(found[0], {})[found[1]] = value
    if sections:
        values[_TABLES] = sections


def _wrong(name: str, value: Any, sources: Mapping[str, str], rule: str) -> ConfigError:
    """The error for one setting, without the values of secrets."""
    shown = "wrong" if name in _SECRET else str(value).lower() if isinstance(value, bool) else repr(value)
    return ConfigError(f"{sources.get(name, name)} is {shown}; {name} must be {rule}.")


def _kind(expected: Any) -> str:
    """Describes a valid value of that type."""
    choices = get_args(expected)
    if choices and all(isinstance(choice, str) for choice in choices):
        return f"{', '.join(choices[:-1])} or {choices[-1]}"
    kinds = {int: "a whole number", float: "a number", bool: "true or false", str: "text", Path: "a path"}
    return next((words for kind, words in kinds.items() if kind is expected or kind in choices), "of another type")


def _check(settings: Settings, sources: Mapping[str, str]) -> None:
    """Raises ConfigError for values that no server can use."""
    for name, meaning in (("port", "0 picks a free one"), ("connect_port", "0 for none"), ("agent_port", "0 for none")):
        if not 0 <= (getattr(settings, name) or 0) <= 65535:
            raise _wrong(name, getattr(settings, name), sources, f"between 0 ({meaning}) and 65535")
    for name in ("host", "admin_user"):
        if not getattr(settings, name).strip():
            raise _wrong(name, getattr(settings, name), sources, "non-empty text")
    if rule := providernames.problem(settings.provider):
        raise _wrong("provider", settings.provider, sources, rule)
    _check_database(settings, sources)
    try:
        urls.directory(settings.storage_url)
    except ValueError as error:
        raise _wrong("storage_url", settings.storage_url, sources, str(error)) from error
    if not is_origin(settings.public_url):
        raise _wrong("public_url", settings.public_url, sources, "http://HOST:PORT or https://HOST:PORT, with nothing after it")
    _check_keys(settings, sources)
    _check_connect(settings)
    _check_nodes(settings, sources)
    if settings.ends_with is not None and settings.ends_with <= 0:
        raise _wrong("ends_with", settings.ends_with, sources, "a process id")
    _check_sessions(settings, sources)
    _check_room(settings)
    _check_proxies(settings, sources)
    _check_rates(settings, sources)
    _check_network(settings, sources)
    _check_oidc(settings, sources)
    for name in (
        "cpu_overcommit",
        "memory_overcommit",
        "orphan_grace_s",
        "agent_silence_s",
        "spark_silence_s",
        "driver_give_up_s",
        "log_delivery_s",
        "launch_timeout_s",
        "init_script_timeout_s",
        "autoscale_up_after_s",
        "autoscale_down_after_s",
        "session_lifetime_s",
        "audit_log_days",
        "log_days",
    ):
        if not 0 < getattr(settings, name) < math.inf:
            raise _wrong(name, getattr(settings, name), sources, "a number above 0")


def _check_nodes(settings: Settings, sources: Mapping[str, str]) -> None:
    give_up_s, silence_s = settings.driver_give_up_s, settings.spark_silence_s
    if give_up_s < silence_s:
        raise ConfigError(f"driver_give_up_s is {give_up_s:g}; it must be at least spark_silence_s ({silence_s:g}).")
    if not 1 <= settings.max_nodes <= MAX_NODES:
        raise _wrong("max_nodes", settings.max_nodes, sources, f"between 1 and {MAX_NODES}")


def _check_database(settings: Settings, sources: Mapping[str, str]) -> None:
    if not is_database(settings.database_url):
        raise _wrong(
            "database_url", "", sources, "postgresql://user:password@host/database, or omitted for SQLite in the data directory"
        )
    if not 0 <= settings.database_wait_s < math.inf:
        raise _wrong("database_wait_s", settings.database_wait_s, sources, "a number, 0 or more")


def _check_rates(settings: Settings, sources: Mapping[str, str]) -> None:
    try:
        rates(settings.rate_limits)
    except ValueError as error:
        raise _wrong("rate_limits", settings.rate_limits, sources, str(error)) from error


def _check_sessions(settings: Settings, sources: Mapping[str, str]) -> None:
    if not SESSION_IDLE_S <= settings.session_idle_s < math.inf:  # use is recorded once a minute
        raise _wrong("session_idle_s", settings.session_idle_s, sources, f"a number of {SESSION_IDLE_S:g} or more")


def _check_oidc(settings: Settings, sources: Mapping[str, str]) -> None:
    changed = [field.name for field in msgspec.structs.fields(Settings) if getattr(settings, field.name) != field.default]
    named = [name for name in changed if name.startswith("oidc_")]
    if not settings.oidc_issuer:
        if named:
            raise ConfigError(f"{sources[named[0]]} needs oidc_issuer, the URL of the identity provider.")
        return
    if not trusted_url(settings.oidc_issuer) or "?" in settings.oidc_issuer:
        rule = "https://HOST or https://HOST/PATH, exactly as the provider writes it (http on this machine only)"
        raise _wrong("oidc_issuer", settings.oidc_issuer.rpartition("@")[2], sources, rule)
    for name in ("oidc_client_id", "oidc_user_claim", "oidc_groups_claim"):
        if not getattr(settings, name).strip():
            raise _wrong(name, getattr(settings, name), sources, "non-empty text where oidc_issuer is set")
    if "openid" not in words(settings.oidc_scopes):
        raise _wrong("oidc_scopes", settings.oidc_scopes, sources, "a list with openid, such as openid profile email")
    if settings.oidc_create_users and not settings.oidc_domains.strip():
        rule = "false, unless oidc_domains says whose e-mail addresses may come in (* for all that the provider has)"
        raise _wrong("oidc_create_users", settings.oidc_create_users, sources, rule)
    try:
        groups = group_names(settings.oidc_groups)
    except ValueError as error:
        raise _wrong("oidc_groups", settings.oidc_groups, sources, str(error)) from error
    if "users" in {name.lower() for name in groups.values()}:
        raise _wrong("oidc_groups", settings.oidc_groups, sources, "without the group users, which everyone is in")


def _check_keys(settings: Settings, sources: Mapping[str, str]) -> None:
    try:
        key_entries(settings.encryption_key)
    except ValueError as error:
        raise _wrong("encryption_key", "", sources, "64 hex digits, such as `openssl rand -hex 32` prints") from error


def _check_room(settings: Settings) -> None:
    if not 0 <= settings.memory_guard_share <= 1:
        raise ConfigError(f"memory_guard_share is {settings.memory_guard_share}; it must be a number from 0 to 1.")
    if not 0 <= settings.min_free_disk_gb < math.inf:
        raise ConfigError(f"min_free_disk_gb is {settings.min_free_disk_gb}; it must be a number, 0 or more.")
    if not 0 <= settings.snapshot_days < math.inf:
        raise ConfigError(f"snapshot_days is {settings.snapshot_days}; it must be a number, 0 or more (0: for good).")
    for name in ("node_disk_gb", "dbfs_gb", "snapshot_gb", "snapshots_gb"):
        if (room := getattr(settings, name)) is not None and not 0 < room < math.inf:
            raise ConfigError(f"{name} is {room}; it must be a number above 0. Leave it out for half of the disk.")


def _check_connect(settings: Settings) -> None:
    if (settings.tls_cert is None) != (settings.tls_key is None):
        raise ConfigError("tls_cert and tls_key belong together: give both, or neither.")
    if settings.tls_cert is not None and settings.tls_self_signed:
        raise ConfigError("tls_self_signed makes a certificate, and tls_cert gives one: leave one of them out.")


def _check_proxies(settings: Settings, sources: Mapping[str, str]) -> None:
    for proxy in filter(None, settings.trusted_proxies.split(",")):
        try:
            ipaddress.ip_network(proxy.strip())
        except ValueError as error:
            rule = "IP addresses or networks (10.0.0.0/8), comma-separated"
            raise _wrong("trusted_proxies", settings.trusted_proxies, sources, rule) from error


def _check_network(settings: Settings, sources: Mapping[str, str]) -> None:
    for place in settings.allowed_places:
        address, _, port = place.rpartition(":")
        try:
            good = ipaddress.ip_address(address).version == 4 and 0 < int(port) <= 65535
        except ValueError:
            good = False
        if not good:
            rule = "IPv4 addresses with a port, like 127.0.0.1:3141, comma-separated"
            raise _wrong("network_allow", settings.network_allow, sources, rule)
    if not all(is_origin(url) for url in settings.credential_endpoints):
        rule = "URLs of a scheme, a host and perhaps a port, like https://minio.example:9000, comma-separated"
        raise _wrong("machine_credentials_endpoints", settings.machine_credentials_endpoints, sources, rule)
    try:
        _ = settings.allowed_port_addresses
    except ValueError as error:
        rule = "IP addresses of this machine, like 10.0.0.5, comma-separated (0.0.0.0: all)"
        raise _wrong("port_addresses", settings.port_addresses, sources, rule) from error
    if settings.network == "isolated" and settings.isolation == "off":
        raise ConfigError('network = "isolated" requires isolation, but isolation is off: set isolation to auto or required.')


def _decode(kind: type, value: Any) -> Any:
    if kind is Path and isinstance(value, str | Path):
        return Path(value)
    raise msgspec.ValidationError(f"expected {kind.__name__}, got {value!r}")
