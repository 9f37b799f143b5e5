"""A workspace's settings: one frozen struct."""

from __future__ import annotations

import ipaddress
import os
from pathlib import Path
from typing import Any, Literal

import msgspec

from brickyard.config import providernames
from brickyard.domain.printable import hiding
from brickyard.domain.signin import Provider, group_names, words
from brickyard.storage import urls

SECRET = ("admin_token", "metrics_token", "database_url", "encryption_key", "oidc_client_secret")
TABLES = "sections"  # the one field that is no setting itself


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
        return tuple(name for name in Settings.__struct_fields__ if name != TABLES)

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
        return hiding(self, SECRET)

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
