"""Whose credentials a copy from or to an object store uses: the cluster's, the machine's, or none.

The machine's go where the machine, its administrators or the cloud's own provider have said, never to an endpoint that a user
names: whoever runs that endpoint would have them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

import msgspec

from brickyard.domain.places import Kind


class MachineCredentials(msgspec.Struct, frozen=True):
    """The administrators' rules for the machine's own credentials."""

    used: bool = True
    endpoints: tuple[str, ...] = ()  # origins to which they may go, besides those of the machine's own settings


NO_LIST = MachineCredentials()


class _Store(msgspec.Struct, frozen=True):
    """What a cluster's environment may say of one kind of store. No names of files: those would be read on this machine, with the
    agent's rights."""

    prefix: str  # of the variables that its library reads
    identities: tuple[tuple[str, ...], ...]  # sets of variables that say who asks, each complete
    others: tuple[str, ...]
    skip: str  # asks without credentials: otherwise the library looks for the machine's in its metadata service
    endpoint: str = ""  # an address, in place of the usual one

    @property
    def who(self) -> frozenset[str]:
        return frozenset(name for names in self.identities for name in names)


_CLIENT = ("AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_TENANT_ID")
_AZURE_KEYS = ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_SAS_KEY", "AZURE_STORAGE_SAS_TOKEN")
_STORES = {
    Kind.S3: _Store(
        prefix="AWS_", identities=(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),), skip="AWS_SKIP_SIGNATURE",
        others=("AWS_SESSION_TOKEN", "AWS_REGION", "AWS_DEFAULT_REGION"), endpoint="AWS_ENDPOINT_URL",
    ),
    Kind.ABFSS: _Store(
        prefix="AZURE_", identities=(*((name,) for name in _AZURE_KEYS), _CLIENT), skip="AZURE_SKIP_SIGNATURE", others=(),
        endpoint="AZURE_STORAGE_ENDPOINT",
    ),
    Kind.GS: _Store(prefix="GOOGLE_", identities=(("GOOGLE_SERVICE_ACCOUNT_KEY",),), skip="GOOGLE_SKIP_SIGNATURE", others=()),
}  # fmt: skip
_ALWAYS = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PYTHONPATH", "SSL_CERT_FILE", "SSL_CERT_DIR")
_AMAZON = re.compile(r"https://s3([.-][a-z]{2}(-[a-z]+)+-\d{1,2})?\.amazonaws\.com(\.cn)?")
_TRUE = ("1", "true", "yes", "on", "y")
NOTE = "OBJECT_STORE_NOTE"  # what to say when a request without credentials is refused
_REMEDY = "Put credentials for it into the cluster's spark_env_vars"


def own_credentials(kind: Kind, cluster: Mapping[str, str]) -> dict[str, str]:
    """What a cluster's environment says of this kind of store."""
    store = _STORES.get(kind)
    names = {*store.who, *store.others, store.skip, store.endpoint} if store is not None else ()
    return {name: value for name, value in cluster.items() if name in names}


def credentials(
    kind: Kind,
    *,
    cluster: Mapping[str, str],
    machine: Mapping[str, str],
    endpoint: str = "",
    rules: MachineCredentials = NO_LIST,
) -> dict[str, str]:
    """Returns the environment for a transfer. `endpoint`: the one that the place names."""
    env = {name: machine[name] for name in _ALWAYS if name in machine}
    store = _STORES.get(kind)
    if store is None:
        return env
    own = own_credentials(kind, cluster)
    if own.get(store.skip, "").lower() in _TRUE or any(all(map(own.get, names)) for names in store.identities):
        return env | own
    machines = {name: value for name, value in machine.items() if name.startswith(store.prefix)}
    refused = _refused(store, own, [endpoint, own.get(store.endpoint, "")], _known(machines), rules)
    return env | own | {store.skip: "true", NOTE: refused} if refused else env | machines | own


def _refused(store: _Store, own: Mapping[str, str], named: Sequence[str], known: Sequence[str], rules: MachineCredentials) -> str:
    """Returns why the machine's credentials are not used, or ""."""
    if some := sorted(store.who & own.keys()):
        return f"The cluster's spark_env_vars have {', '.join(some)}, and not all that belongs to it."
    if not rules.used:
        return f"The machine's own credentials are turned off (machine_credentials). {_REMEDY}."
    trusted = {origin(each) for each in (*known, *rules.endpoints)}
    if strange := [each for each in named if each and origin(each) not in trusted and not _AMAZON.fullmatch(origin(each))]:
        return (
            f"The machine's own credentials are not sent to {strange[0]}, which machine_credentials_endpoints does not list."
            f" {_REMEDY}."
        )
    return ""


def _known(machines: Mapping[str, str]) -> list[str]:
    """The endpoints that the machine itself is set to."""
    return [value for name, value in machines.items() if "ENDPOINT" in name and value]


def origin(url: str) -> str:
    """A URL's scheme, host and port, in their usual form; "" for what is no such URL."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        return ""
    usual = {"http": 80, "https": 443}[parts.scheme]
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host.rstrip('.')}" + (f":{port}" if port not in (None, usual) else "")
