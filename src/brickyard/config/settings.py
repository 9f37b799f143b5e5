"""A workspace's settings: one frozen struct."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_type_hints

import msgspec

from brickyard.config import providernames
from brickyard.config.urls import origin
from brickyard.domain.mailserver import MailServer, mail_server
from brickyard.domain.printable import hiding
from brickyard.domain.signin import Provider, group_names, words
from brickyard.storage import urls

SECRET = ("admin_token", "metrics_token", "database_url", "encryption_key", "oidc_client_secret", "smtp_url")
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


@dataclass(frozen=True)
class Help:
    """What a setting is for, in one sentence: `--help` and docs/configuration.md have it.

    `default`: what an empty default means, or what the value is in other words. Markdown.
    """

    text: str
    default: str = ""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The only place where a setting is declared.

    Every field but `sections` is also a key of the TOML file, an option of `brickyard up` and, in upper case with the prefix
    BRICKYARD_, an environment variable (`declared`).
    """

    @staticmethod
    def names() -> tuple[str, ...]:
        """The names of all settings."""
        return tuple(name for name in Settings.__struct_fields__ if name != TABLES)

    # --- Where it serves ---
    host: Annotated[str, Help("Address to listen on.")] = "127.0.0.1"
    port: Annotated[int, Help("Port to listen on; 0 picks a free one.")] = 8080
    public_url: Annotated[
        str,
        Help(
            "URL of this server for nodes on other machines: http://HOST:PORT or https://HOST:PORT.",
            "the address that it listens on",
        ),
    ] = ""
    external_url: Annotated[
        str,
        Help(
            "URL by which people and clients reach the workspace: https://HOST or https://HOST:PORT.",
            "the address that each request used",
        ),
    ] = ""
    agent_port: Annotated[
        int | None, Help("TLS port for nodes on other machines. 0: a proxy terminates TLS.", "the port of `public_url`")
    ] = None
    agent_ca: Annotated[
        Path | None,
        Help("PEM certificates that nodes on other machines trust, if a proxy terminates TLS.", "what the nodes' machines trust"),
    ] = None
    port_addresses: Annotated[str, Help("Addresses besides loopback on which tcp port mappings may listen, comma-separated.")] = (
        ""
    )
    host_names: Annotated[
        str,
        Help(
            "Names by which clients call the workspace, comma-separated.",
            "[names that no stranger can own](#names-of-the-server)",
        ),
    ] = ""
    trusted_proxies: Annotated[
        str, Help("Addresses or networks of proxies whose X-Forwarded-* headers are trusted, comma-separated.")
    ] = ""
    workspace_name: Annotated[str, Help("Name of the workspace on its web page.", "Brickyard")] = ""
    session_idle_s: Annotated[float, Help("Seconds without use after which a browser session ends.", "8 hours")] = 8 * 3600.0
    session_lifetime_s: Annotated[float, Help("Seconds after which every browser session ends.", "7 days")] = 7 * 86_400.0
    oidc_issuer: Annotated[str, Help("Issuer URL of an external OpenID Connect provider that people log in with.")] = ""
    oidc_client_id: Annotated[str, Help("Client id at the provider.")] = ""
    oidc_client_secret: Annotated[str, Help("Client secret at the provider (better: BRICKYARD_OIDC_CLIENT_SECRET).")] = ""
    oidc_name: Annotated[str, Help("Name of the provider on the log-in page.", "the issuer's host")] = ""
    oidc_scopes: Annotated[str, Help("Scopes to request from the provider, with openid among them.")] = "openid profile email"
    oidc_user_claim: Annotated[str, Help("Claim that is the user's name. email counts only with email_verified.")] = "email"
    oidc_domains: Annotated[str, Help("Domains of user names that may log in with the provider, comma-separated.", "all")] = ""
    oidc_create_users: Annotated[bool, Help("Create users at their first log-in.")] = False
    oidc_groups_claim: Annotated[str, Help("Claim with the provider's groups.")] = "groups"
    oidc_single_log_out: Annotated[bool, Help("Log out at the provider as well.")] = False
    oidc_groups: Annotated[str, Help("Groups to keep in step with the provider: VALUE=GROUP, comma-separated.")] = ""
    rate_limits: Annotated[
        str, Help("Calls per second and user, like dbfs=100,*=50, or off.", "as Databricks documents them")
    ] = ""
    audit_log_days: Annotated[float, Help("Days after which entries of the audit log are removed.")] = 365.0
    log_days: Annotated[float, Help("Days after which the logs of ended nodes are removed.")] = 30.0
    metrics_token: Annotated[str, Help("Token that /metrics requires (better: BRICKYARD_METRICS_TOKEN).")] = ""
    tracing_endpoint: Annotated[
        str, Help("Collector that traces of calls are sent to, by OTLP over HTTP: http://HOST:4318.", "no traces")
    ] = ""
    tracing_ratio: Annotated[float, Help("Share of the calls that are traced, 0 to 1, unless the client decides.")] = 1.0
    smtp_url: Annotated[
        str,
        Help(
            "SMTP server for e-mail about runs: smtp://USER:PASSWORD@HOST:PORT (STARTTLS) or smtps://... (TLS); ?tls=off: none "
            "(better: BRICKYARD_SMTP_URL).",
            "no e-mail",
        ),
    ] = ""
    smtp_from: Annotated[str, Help("Address that e-mail about runs comes from.")] = ""
    notification_networks: Annotated[
        str,
        Help(
            "Networks besides public addresses to which notifications may be sent, like 10.0.0.0/8, comma-separated.",
            "public addresses, over https",
        ),
    ] = ""
    connect_port: Annotated[int | None, Help("Port for Spark Connect alone; 0: none.", "15002, if it is free")] = None
    connect_start_clusters: Annotated[bool, Help("Start a terminated cluster when a client connects to it.")] = True
    tls: Annotated[bool, Help("Serve HTTPS and Spark Connect on one port, with a certificate of the workspace's own.")] = False
    tls_cert: Annotated[Path | None, Help("Certificate to serve with instead, PEM. Turns tls on.")] = None
    tls_key: Annotated[Path | None, Help("Key of tls_cert, PEM.")] = None

    # --- Where it keeps things ---
    data_dir: Annotated[
        Path, Help("Directory for the server's data.", "`$XDG_DATA_HOME/brickyard`, or `~/.local/share/brickyard`")
    ] = msgspec.field(default_factory=default_data_dir)
    storage_url: Annotated[str, Help("Directory of the workspace's files.", "`data_dir`")] = ""
    cache_dir: Annotated[
        Path,
        Help(
            "Directory for Spark runtimes and the quickstart's data, shared by workspaces.",
            "`$XDG_CACHE_HOME/brickyard`, or `~/.cache/brickyard`",
        ),
    ] = msgspec.field(default_factory=default_cache_dir)
    database_url: Annotated[
        str, Help("PostgreSQL database: postgresql://user:password@host/database.", "SQLite in `data_dir`")
    ] = ""
    database_wait_s: Annotated[float, Help("Seconds that a start waits for the database's address; 0: not at all.")] = 60.0

    # --- Who may use it ---
    admin_user: Annotated[str, Help("The first administrator's name.")] = "admin@brickyard.local"
    encryption_key: Annotated[
        str,
        Help(
            "Key that encrypts secrets, 64 hex digits (better: BRICKYARD_ENCRYPTION_KEY).",
            "the file `secrets.key` in the storage",
        ),
    ] = ""
    admin_token: Annotated[
        str, Help("The first administrator's token (better: BRICKYARD_ADMIN_TOKEN).", "made at the first start")
    ] = ""

    # --- Nodes ---
    provider: Annotated[
        str,
        Help(
            "Where nodes run: local, ray, slurm, kubernetes, simulated (for tests) or another installed provider. "
            "Several, comma-separated: the first is the default."
        ),
    ] = "local"
    isolation: Annotated[
        Literal["auto", "required", "off"], Help("Isolation of clusters from this machine: auto, required or off.")
    ] = "auto"
    network: Annotated[
        Literal["auto", "isolated", "shared"], Help("Whether every cluster has its own network: auto, isolated or shared.")
    ] = "auto"
    internet: Annotated[bool, Help("Whether clusters with their own networks reach other machines.")] = True
    network_allow: Annotated[
        str, Help("Services of this machine that isolated clusters can reach, as ADDRESS:PORT, comma-separated.")
    ] = ""
    machine_credentials: Annotated[
        bool, Help("Whether clusters without credentials for an object store use the machine's own.")
    ] = True
    machine_credentials_endpoints: Annotated[
        str, Help("URLs of object stores that may get the machine's credentials, comma-separated.")
    ] = ""
    simulated_knobs: Annotated[Path | None, Help("TOML file with the delays and failures of the simulated provider's nodes.")] = (
        None
    )
    cpu_overcommit: Annotated[float, Help("Cores offered, as a multiple of the machine's cores.")] = 16.0
    memory_overcommit: Annotated[float, Help("Memory offered, as a multiple of the machine's memory.")] = 4.0
    memory_guard_share: Annotated[
        float, Help("A node below this share of its memory is not ended when the machine runs out, 0 to 1.")
    ] = 0.5
    min_free_disk_gb: Annotated[float, Help("GiB to keep free on the storage's disk; 0: none.")] = 1.0
    node_disk_gb: Annotated[float | None, Help("Limit for the files of one node, in GiB.", "half of the disk")] = None
    dbfs_gb: Annotated[
        float | None, Help("Limit for the workspace's files (DBFS, volumes, notebooks), in GiB.", "half of the disk")
    ] = None
    launch_timeout_s: Annotated[float, Help("Seconds that a cluster may take to start, including a runtime's installation.")] = (
        1200.0
    )
    init_script_timeout_s: Annotated[float, Help("Seconds that each init script may run.")] = 600.0
    agent_silence_s: Annotated[float, Help("Seconds of silence after which a node counts as lost.")] = 60.0
    log_delivery_s: Annotated[float, Help("Seconds between two deliveries of a cluster's logs.")] = 300.0
    spark_silence_s: Annotated[float, Help("Seconds without an answer after which a node's Spark counts as hung.")] = 60.0
    driver_give_up_s: Annotated[float, Help("Seconds without an answer from a driver's Spark after which its cluster ends.")] = (
        300.0
    )
    snapshot_gb: Annotated[
        float | None, Help("Limit for the files in one snapshot of a workspace directory, in GiB.", "half of the disk")
    ] = None
    snapshots_gb: Annotated[float | None, Help("Limit for all snapshots together, compressed, in GiB.", "half of the disk")] = (
        None
    )
    snapshot_days: Annotated[float, Help("Days after which snapshots are removed; 0: never.")] = 0.0
    orphan_grace_s: Annotated[float, Help("Seconds without a server after which nodes end themselves.")] = 600.0
    keep_nodes: Annotated[bool, Help("Leave nodes running when the server stops; the next start adopts them.")] = False
    ends_with: Annotated[int | None, Help("Process id: the server stops when that process ends.")] = None
    task_files_dir: Annotated[Path | None, Help("Directory of Python files that tasks may run (file:/...).")] = None
    node_prices: Annotated[Path | None, Help("TOML file with prices per hour of node types.", "the catalogue's list prices")] = (
        None
    )
    background_training: Annotated[
        bool, Help("Whether installed runtimes are completed in the background: packages, training.")
    ] = True
    default_runtime: Annotated[
        str, Help("Runtime key that quickstart and runtime install take.", "the newest LTS on Spark 4")
    ] = ""
    policy_checks: Annotated[
        Literal["strict", "lax"],
        Help("When a cluster policy with mistakes is refused: strict (when it is saved) or lax (when it is used)."),
    ] = "strict"
    max_nodes: Annotated[int, Help("Most workers of one cluster, and most instances of one pool.")] = 1_000
    photon: Annotated[
        Literal["refuse", "standard"],
        Help("What Photon means: refuse (an error where the runtime lacks it) or standard (Spark's own engine everywhere)."),
    ] = "refuse"
    default_table_format: Annotated[
        Literal["parquet", "delta"],
        Help("Format of tables that name none, on clusters that have Delta Lake: parquet or delta."),
    ] = "parquet"
    sql_node_type: Annotated[str, Help("Node type of new SQL warehouses.", "i3.xlarge, else the smallest")] = ""
    sql_history_days: Annotated[float, Help("Days after which SQL statements leave the query history; 0: never.")] = 30.0
    autoscale_up_after_s: Annotated[float, Help("Seconds that tasks wait before an autoscaling cluster grows.")] = 1.0
    autoscale_down_after_s: Annotated[float, Help("Seconds after which an autoscaling cluster removes an idle worker.")] = 150.0

    # --- Logs ---
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Help("Least severe messages of the log: debug, info, warning or error.")
    ] = "info"
    log_format: Annotated[
        Literal["console", "json"], Help("Format of the log: console (for people) or json (one object per line).")
    ] = "console"

    sections: dict[str, dict[str, Any]] = {}  # settings of providers, by their names: the TOML file's tables, like [ray]

    @property
    def providers(self) -> tuple[str, ...]:
        """The names in `provider`, the default one first."""
        return providernames.listed(self.provider)

    @property
    def serves_tls(self) -> bool:
        """Whether the server's port speaks TLS."""
        return self.tls or self.tls_cert is not None

    @property
    def ca_file(self) -> Path | None:
        """What clients must trust, PEM, if the server's certificate is of the workspace's own authority."""
        return self.data_dir / "tls" / "ca.pem" if self.tls and self.tls_cert is None else None

    @property
    def external_origin(self) -> str:
        """`external_url` as browsers write an origin: in lower case, without a slash and without the scheme's own port."""
        return origin(self.external_url) if self.external_url else ""

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
    def mail_server(self) -> MailServer | None:
        """The server that takes the workspace's e-mail. Raises ValueError."""
        return mail_server(self.smtp_url, self.smtp_from) if self.smtp_url else None

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


GROUPS = {  # the first setting of each group: its heading in `--help`
    "host": "Where it serves",
    "session_idle_s": "How people log in",
    "rate_limits": "Limits and records",
    "smtp_url": "Notifications",
    "connect_port": "Spark Connect and TLS",
    "data_dir": "Where it keeps things",
    "admin_user": "Who may use it",
    "provider": "Nodes and their isolation",
    "cpu_overcommit": "Room",
    "launch_timeout_s": "Patience with nodes",
    "snapshot_gb": "Snapshots",
    "orphan_grace_s": "Nodes and this server",
    "node_prices": "Clusters",
    "log_level": "Log",
}


class Declaration(NamedTuple):
    """A setting as it is declared in `Settings`. `annotation`: the type of its values; `type`: the same without None, and `str`
    for one of several words."""

    name: str
    annotation: Any
    type: type
    default: Any
    help: Help
    group: str

    @property
    def shown_default(self) -> str:
        """The default for people, in Markdown; what an empty one means, if its declaration says so. Empty: none."""
        if self.default in ("", None) or isinstance(self.default, Path):
            return self.help.default
        if isinstance(self.default, bool):
            plain = str(self.default).lower()
        else:
            plain = f"{self.default:.12g}" if isinstance(self.default, float) else str(self.default)
        return f"{plain} ({self.help.default})" if self.help.default else plain

    @property
    def variable(self) -> str:
        """Its environment variable."""
        return f"BRICKYARD_{self.name.upper()}"

    @property
    def option(self) -> str:
        """Its option of `brickyard up`."""
        return f"--{self.name.replace('_', '-')}"


@cache
def declared() -> dict[str, Declaration]:
    """All settings by name, in the order of their declaration."""
    hints, defaults = get_type_hints(Settings, include_extras=True), Settings()
    found, group = {}, ""
    for name in Settings.names():
        group = GROUPS.get(name, group)
        kind, help_ = get_args(hints[name])
        choices = [each for each in get_args(kind) if each is not type(None)]
        plain = kind if not choices else choices[0] if isinstance(choices[0], type) else str
        found[name] = Declaration(name, kind, plain, getattr(defaults, name), help_, group)
    return found
