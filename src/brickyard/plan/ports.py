"""Which ports of a driver are reachable from outside: what requests make of a cluster's mappings, and what is wrong with them.
Pure.

Every problem of a request is found, and named by its field.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from brickyard.domain.cluster import Cluster, Instance
from brickyard.domain.node import Role
from brickyard.domain.ports import LOOPBACK, PortMapping, PortProtocol, PortRow, PortStatus, PortUpdate, PortView
from brickyard.domain.strict import Problem

MOST = 32  # mappings of one cluster
MAX_DESCRIPTION = 1_000
FIRST_FREE, LAST = 1024, 65535
EPHEMERAL = 32_768  # from here on, Linux gives ports to whatever asks for any
_LOOPBACKS = (LOOPBACK, "::1")
_PLAIN = ("description", "bind_address", "strip_prefix")


class Rules(NamedTuple):
    """What mappings of a cluster must respect. `taken`: external ports of other clusters' mappings; `own_ports`: of the server;
    `spark_ports`: that Spark uses on the driver now; `addresses`: those besides loopback that listeners may be bound to."""

    http_port: int
    own_ports: Collection[int] = ()
    taken: Collection[int] = ()
    spark_ports: Collection[int] = ()
    addresses: Collection[str] = ()


class Planned(NamedTuple):
    """All mappings that the cluster would have, and what is wrong with the request."""

    mappings: tuple[PortMapping, ...]
    problems: list[Problem]


class _Touched(NamedTuple):
    """A mapping that a request makes or changes, and the name of the request's object."""

    mapping: PortMapping
    update: PortUpdate
    prefix: str


def merged(
    cluster_id: str,
    current: Sequence[PortMapping],
    updates: Sequence[PortUpdate],
    *,
    field: str,
    rules: Rules,
    new_id: Callable[[], str],
    add_only: bool = False,
) -> Planned:
    """The mappings after these updates. `field`: the request's list, or "" if the fields are the request's own; with `add_only`
    an update always makes a new mapping."""
    known = {each.port_id: each for each in current}
    problems: list[Problem] = []
    touched: dict[str, _Touched] = {}
    for number, update in enumerate(updates):
        prefix = f"{field}[{number}]." if field else ""
        before = None if add_only else _named(known, update)
        if update.id is not None and before is None:
            problems.append(Problem(field=f"{prefix}id", reason="the cluster has no such mapping", requested=update.id[:140]))
        elif update.remove:
            _remove(known, before, update, prefix, problems)
        elif before is not None and before.port_id in touched:
            problems.append(Problem(field=f"{prefix}internal_port", reason="the request has this mapping twice"))
        else:
            made = _applied(cluster_id, before, update, rules=rules, new_id=new_id)
            known[made.port_id] = made
            touched[made.port_id] = _Touched(made, update, prefix)
    for each in touched.values():
        problems += _problems(each, rules)
    problems += _collisions(list(known.values()), touched)
    if len(known) > max(MOST, len(current)):
        problems.append(
            Problem(field=field or "internal_port", reason=f"a cluster has at most {MOST} mappings", requested=len(known))
        )
    return Planned(tuple(known.values()), problems)


def replaced(
    cluster_id: str,
    current: Sequence[PortMapping],
    wanted: Sequence[PortUpdate],
    *,
    field: str,
    rules: Rules,
    new_id: Callable[[], str],
) -> Planned:
    """Exactly the mappings of the list; those of the cluster that it names keep their id."""
    known = {each.port_id: each for each in current}
    kept = [before for update in wanted if (before := _named(known, update)) is not None]
    problems = [
        Problem(field=f"{field}[{number}].remove", reason="leave the mapping out instead")
        for number, update in enumerate(wanted)
        if update.remove
    ]
    planned = merged(
        cluster_id,
        list(dict.fromkeys(kept)),
        [each for each in wanted if not each.remove],
        field=field,
        rules=rules,
        new_id=new_id,
    )
    return Planned(planned.mappings, [*problems, *planned.problems])


def spark_ports(nodes: Iterable[Instance]) -> set[int]:
    """Ports of the driver node that Spark is known to use: no mapping leads there, since who may use the mapping is not who may
    use Spark."""
    found: set[int] = set()
    for node in nodes:
        if node.role is not Role.WORKER:
            status = node.current_status
            addresses = (status.master_url, status.worker_address)
            found |= {status.connect_port, *status.spark_ports}
            found |= {int(port) for each in addresses if (port := each.rpartition(":")[2]).isdigit()}
    return found - {0}


def view(row: PortRow, cluster: Cluster, *, base_url: str, http_port: int) -> PortView:
    """A mapping as the dialect shows it. `base_url`: the server's."""
    mapping = row.mapping
    is_http = mapping.protocol is PortProtocol.HTTP
    status, details = _status(row, cluster)
    host = f"[{mapping.bind_address}]" if ":" in mapping.bind_address else mapping.bind_address
    return PortView(
        id=mapping.port_id,
        internal_port=mapping.internal_port,
        external_port=http_port if is_http else mapping.external_port,
        protocol=mapping.protocol,
        description=mapping.description,
        bind_address="" if is_http else mapping.bind_address,
        strip_prefix=mapping.strip_prefix and is_http,
        url=f"{base_url}{path(mapping)}/" if is_http else f"tcp://{host}:{mapping.external_port}",
        status=status,
        status_details=details,
    )


def path(mapping: PortMapping) -> str:
    """The path of the gateway that an http mapping has."""
    return f"/ports/{mapping.cluster_id}/{mapping.internal_port}"


def _status(row: PortRow, cluster: Cluster) -> tuple[PortStatus, str]:
    if not cluster.up:
        return PortStatus.INACTIVE, "The cluster does not run."
    if row.mapping.protocol is PortProtocol.HTTP:
        return PortStatus.ACTIVE, ""
    if row.fault:
        return PortStatus.FAILED, row.fault
    if row.opened != cluster.incarnation:
        return PortStatus.PENDING, "The listener is not open yet."
    return PortStatus.ACTIVE, ""


def _named(known: dict[str, PortMapping], update: PortUpdate) -> PortMapping | None:
    """The mapping that an update is about, if there is one."""
    if update.id is not None:
        return known.get(update.id)
    wanted = (update.internal_port, update.protocol or PortProtocol.HTTP)
    return next((each for each in known.values() if (each.internal_port, each.protocol) == wanted), None)


def _remove(
    known: dict[str, PortMapping], before: PortMapping | None, update: PortUpdate, prefix: str, problems: list[Problem]
) -> None:
    if update.external_port is not None or any(getattr(update, name) is not None for name in _PLAIN):
        problems.append(Problem(field=f"{prefix}remove", reason="a mapping is either removed or changed"))
    elif before is None:
        problems.append(
            Problem(field=f"{prefix}remove", reason="the cluster has no such mapping", requested=update.internal_port)
        )
    else:
        del known[before.port_id]


def _applied(
    cluster_id: str, before: PortMapping | None, update: PortUpdate, *, rules: Rules, new_id: Callable[[], str]
) -> PortMapping:
    start = before or PortMapping(port_id=new_id(), cluster_id=cluster_id, internal_port=0)
    changes: dict[str, Any] = {name: getattr(update, name) for name in _PLAIN if getattr(update, name) is not None}
    if update.internal_port is not None:
        changes["internal_port"] = update.internal_port
    if update.protocol is not None:
        changes["protocol"] = update.protocol
    made = msgspec.structs.replace(start, **changes)
    external = update.external_port if update.external_port is not None else made.external_port
    if made.protocol is PortProtocol.HTTP:
        same = update.external_port in (None, rules.http_port)  # as it is shown
        return msgspec.structs.replace(made, external_port=0 if same else external)
    return msgspec.structs.replace(made, external_port=external or made.internal_port)


def _problems(touched: _Touched, rules: Rules) -> list[Problem]:
    mapping, update, prefix = touched
    found: list[Problem] = []

    def wrong(field: str, reason: str, requested: Any = None) -> None:
        found.append(Problem(field=prefix + field, reason=reason, requested=requested))

    if update.internal_port is None and not mapping.internal_port:
        wrong("internal_port", "it is needed: the port on the driver node that a program listens on")
    elif why := _unfit(mapping.internal_port):
        wrong("internal_port", why, mapping.internal_port)
    elif mapping.internal_port in rules.spark_ports:
        wrong("internal_port", "Spark uses this port of the driver node", mapping.internal_port)
    if len(mapping.description) > MAX_DESCRIPTION:
        wrong("description", f"it must have at most {MAX_DESCRIPTION} characters")
    return [*found, *(_http_problems if mapping.protocol is PortProtocol.HTTP else _tcp_problems)(touched, rules)]


def _http_problems(touched: _Touched, rules: Rules) -> Iterator[Problem]:
    mapping, update, prefix = touched
    if (port := mapping.external_port) != 0:
        reason = "http mappings are at the server's own port; leave it out"
        yield Problem(field=f"{prefix}external_port", reason=reason, requested=port, available=rules.http_port)
    if update.bind_address:
        reason = "http mappings are at the server's own address; leave it out"
        yield Problem(field=f"{prefix}bind_address", reason=reason, requested=update.bind_address[:140])


def _tcp_problems(touched: _Touched, rules: Rules) -> Iterator[Problem]:
    mapping, update, prefix = touched
    port, address = mapping.external_port, mapping.bind_address
    if update.strip_prefix is not None:
        yield Problem(field=f"{prefix}strip_prefix", reason="only http mappings have a path", requested=update.strip_prefix)
    why = _unfit(port, ephemeral=True) if port or update.external_port is not None else ""
    if not why and port in rules.own_ports:
        why = "the server itself uses this port"
    elif not why and port in rules.taken:
        why = "a mapping of another cluster has this port"
    if why:
        yield Problem(field=f"{prefix}external_port", reason=why, requested=port)
    if why := _unfit_address(address, rules.addresses):
        available = [*_LOOPBACKS, *rules.addresses]
        yield Problem(field=f"{prefix}bind_address", reason=why, requested=address[:140], available=available)


def _unfit(port: int, *, ephemeral: bool = False) -> str:
    """Why a port cannot be used, or ""."""
    if not 0 < port <= LAST:
        return f"it must be between {FIRST_FREE} and {LAST}"
    if port < FIRST_FREE:
        return f"ports below {FIRST_FREE} are privileged; choose a higher one"
    if ephemeral and port >= EPHEMERAL:
        return f"the system gives ports from {EPHEMERAL} on to other programs; choose a lower one"
    return ""


def _unfit_address(address: str, allowed: Collection[str]) -> str:
    try:
        parsed = str(ipaddress.ip_address(address))
    except ValueError:
        return "it must be an IP address"
    if parsed in (*_LOOPBACKS, *allowed):  # other addresses of loopback may be those of nodes
        return ""
    return "only loopback, and the addresses of the setting port_addresses, are allowed"


def _collisions(mappings: Sequence[PortMapping], touched: dict[str, _Touched]) -> list[Problem]:
    """Mappings of this cluster that cannot be there together; the problem is the request's."""
    inside = Counter((each.internal_port, each.protocol) for each in mappings)
    outside = Counter(each.external_port for each in mappings if each.external_port)
    found = []
    for mapping, _, prefix in touched.values():
        if mapping.internal_port and inside[mapping.internal_port, mapping.protocol] > 1:
            reason = f"the cluster has another {mapping.protocol.value} mapping of this port"
            found.append(Problem(field=f"{prefix}internal_port", reason=reason, requested=mapping.internal_port))
        if mapping.external_port and outside[mapping.external_port] > 1:
            reason = "another mapping of the cluster has this port"
            found.append(Problem(field=f"{prefix}external_port", reason=reason, requested=mapping.external_port))
    return found
