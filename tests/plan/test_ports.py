"""Port mappings: what requests make of them, and that every problem is found."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brickyard.domain.cluster import Target
from brickyard.domain.node import Role
from brickyard.domain.ports import PortMapping, PortProtocol, PortRow, PortStatus, PortUpdate
from brickyard.plan.ports import EPHEMERAL, FIRST_FREE, LAST, MOST, Planned, Rules, merged, replaced, spark_ports, view
from brickyard.testing.builders import cluster, instance, up

TCP, HTTP = PortProtocol.TCP, PortProtocol.HTTP
ID = "0101-000000-testtest"
RULES = Rules(http_port=8080, own_ports={8080, 15002}, taken={20_000}, spark_ports={7077}, addresses={"10.0.0.5"})


def after(current: list[PortMapping], *updates: PortUpdate, rules: Rules = RULES, add_only: bool = False) -> Planned:
    numbers = itertools.count(100)
    return merged(ID, current, updates, field="ports", rules=rules, new_id=lambda: f"port_{next(numbers)}", add_only=add_only)


def fields(planned: Planned) -> set[str]:
    return {each.field for each in planned.problems}


def mapping(number: int, port: int, protocol: PortProtocol = HTTP, external: int = 0) -> PortMapping:
    return PortMapping(port_id=f"port_{number}", cluster_id=ID, internal_port=port, protocol=protocol, external_port=external)


def test_a_new_mapping_is_http_unless_it_says_otherwise() -> None:
    (made,) = after([], PortUpdate(internal_port=8888)).mappings
    assert (made.protocol, made.external_port, made.strip_prefix) == (HTTP, 0, True)
    (made,) = after([], PortUpdate(internal_port=5432, protocol=TCP)).mappings
    assert (made.external_port, made.bind_address) == (5432, "127.0.0.1")


def test_an_update_changes_what_it_names_and_keeps_the_id() -> None:
    known = mapping(1, 5432, TCP, 15432)
    by_port = after([known], PortUpdate(internal_port=5432, protocol=TCP, description="db"))
    by_id = after([known], PortUpdate(id="port_1", description="db"))
    assert by_port.mappings == by_id.mappings == (msgspec.structs.replace(known, description="db"),)
    assert after([known], PortUpdate(id="port_1", remove=True)).mappings == ()
    assert after([known], PortUpdate(internal_port=5432, protocol=TCP, remove=True)).mappings == ()


@pytest.mark.parametrize(
    ("update", "field"),
    [
        ({}, "internal_port"),
        ({"internal_port": 0}, "internal_port"),
        ({"internal_port": 80}, "internal_port"),
        ({"internal_port": 65_536}, "internal_port"),
        ({"internal_port": -1}, "internal_port"),
        ({"internal_port": 7077}, "internal_port"),
        ({"internal_port": 9000, "external_port": 9000}, "external_port"),
        ({"internal_port": 9000, "bind_address": "10.0.0.5"}, "bind_address"),
        ({"internal_port": 9000, "description": "x" * 1_001}, "description"),
        ({"internal_port": 9000, "protocol": TCP, "external_port": 0, "strip_prefix": False}, "strip_prefix"),
        ({"internal_port": 9000, "protocol": TCP, "external_port": 443}, "external_port"),
        ({"internal_port": 9000, "protocol": TCP, "external_port": -1}, "external_port"),
        ({"internal_port": 9000, "protocol": TCP, "external_port": EPHEMERAL}, "external_port"),
        ({"internal_port": 9000, "protocol": TCP, "external_port": 8080}, "external_port"),
        ({"internal_port": 9000, "protocol": TCP, "external_port": 15_002}, "external_port"),
        ({"internal_port": 9000, "protocol": TCP, "external_port": 20_000}, "external_port"),
        ({"internal_port": 9000, "protocol": TCP, "bind_address": "0.0.0.0"}, "bind_address"),  # noqa: S104
        ({"internal_port": 9000, "protocol": TCP, "bind_address": "localhost"}, "bind_address"),
        ({"internal_port": 9000, "protocol": TCP, "bind_address": "127.8.0.1"}, "bind_address"),
        ({"id": "port_9"}, "id"),
        ({"internal_port": 9000, "remove": True}, "remove"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_by_name(update: dict[str, Any], field: str) -> None:
    planned = after([], PortUpdate(**update))
    assert fields(planned) == {f"ports[0].{field}"}
    assert all(each.reason for each in planned.problems)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "10.0.0.5"])
def test_listeners_may_be_on_loopback_and_where_the_administrator_allows(address: str) -> None:
    assert after([], PortUpdate(internal_port=9000, protocol=TCP, bind_address=address)).problems == []


def test_every_problem_of_a_request_is_listed() -> None:
    planned = after(
        [mapping(1, 9000, TCP, 19_000)],
        PortUpdate(internal_port=80),
        PortUpdate(internal_port=9001, protocol=TCP, external_port=19_000),
        PortUpdate(id="nothing"),
        PortUpdate(internal_port=9002, protocol=TCP, external_port=443, bind_address="8.8.8.8", strip_prefix=True),
    )
    assert fields(planned) == {
        "ports[0].internal_port",
        "ports[1].external_port",
        "ports[2].id",
        "ports[3].external_port",
        "ports[3].bind_address",
        "ports[3].strip_prefix",
    }


def test_a_cluster_has_a_port_once_for_each_protocol() -> None:
    known = [mapping(1, 9000)]
    assert after(known, PortUpdate(internal_port=9000, protocol=TCP), add_only=True).problems == []
    assert fields(after(known, PortUpdate(internal_port=9000), add_only=True)) == {"ports[0].internal_port"}
    twice = after([mapping(1, 9000), mapping(2, 9001)], PortUpdate(id="port_2", internal_port=9000))
    assert fields(twice) == {"ports[0].internal_port"}
    assert fields(after([], PortUpdate(internal_port=9000), PortUpdate(internal_port=9000))) == {"ports[1].internal_port"}


def test_there_is_a_maximum() -> None:
    updates = [PortUpdate(internal_port=2_000 + each) for each in range(MOST + 1)]
    assert fields(after([], *updates)) == {"ports"}
    assert after([], *updates[:-1]).problems == []


def test_replacing_keeps_the_ids_of_what_stays() -> None:
    known = [mapping(1, 9000), mapping(2, 9001), mapping(3, 5432, TCP, 15_432)]
    wanted = [PortUpdate(id="port_3", description="db"), PortUpdate(internal_port=9001), PortUpdate(internal_port=7000)]
    planned = replaced(ID, known, wanted, field="ports", rules=RULES, new_id=lambda: "port_new")
    assert {each.port_id: each.internal_port for each in planned.mappings} == {"port_3": 5432, "port_2": 9001, "port_new": 7000}
    assert planned.problems == []
    removing = replaced(ID, known, [PortUpdate(id="port_1", remove=True)], field="p", rules=RULES, new_id=str)
    assert fields(removing) == {"p[0].remove"}


UPDATES = st.builds(
    PortUpdate,
    id=st.sampled_from([None, None, "port_1", "port_2", "port_x"]),
    internal_port=st.one_of(st.none(), st.integers(-5, 70_000), st.sampled_from([7077, 9000, 9001])),
    external_port=st.one_of(st.none(), st.integers(-5, 70_000), st.sampled_from([8080, 19_000, 20_000])),
    protocol=st.sampled_from([None, TCP, HTTP]),
    bind_address=st.sampled_from([None, "127.0.0.1", "::1", "10.0.0.5", "0.0.0.0", "x", ""]),  # noqa: S104
    strip_prefix=st.sampled_from([None, True, False]),
    description=st.sampled_from([None, "", "text"]),
    remove=st.sampled_from([None, False, True]),
)


@given(updates=st.lists(UPDATES, max_size=5), whole=st.booleans(), add_only=st.booleans())
def test_a_plan_without_problems_is_sound(updates: list[PortUpdate], whole: bool, add_only: bool) -> None:
    known = [mapping(1, 9000), mapping(2, 9000, TCP, 19_000)]
    numbers = itertools.count(100)
    if whole:
        planned = replaced(ID, known, updates, field="p", rules=RULES, new_id=lambda: f"port_{next(numbers)}")
    else:
        planned = after(known, *updates, add_only=add_only)
    names = {"p", "ports"} | {f"{each}[{number}]" for each in ("p", "ports") for number in range(len(updates))}
    assert {each.field.partition(".")[0] for each in planned.problems} <= names
    if planned.problems:
        return
    made = planned.mappings
    assert len({each.port_id for each in made}) == len(made) <= MOST
    assert len({(each.internal_port, each.protocol) for each in made}) == len(made)
    outside = [each.external_port for each in made if each.protocol is TCP]
    assert len(set(outside)) == len(outside)
    for each in made:
        assert FIRST_FREE <= each.internal_port <= LAST
        assert each.internal_port not in RULES.spark_ports
        if each.protocol is HTTP:
            assert each.external_port == 0
        else:
            assert FIRST_FREE <= each.external_port < EPHEMERAL
            assert each.external_port not in {8080, 15_002, 20_000}
            assert each.bind_address in ("127.0.0.1", "::1", "10.0.0.5")


@pytest.mark.parametrize("role", Role)
def test_ports_that_spark_has_opened_on_the_driver_are_its_own(role: Role) -> None:
    node = instance(up(cluster()), role=role)
    status = msgspec.structs.replace(
        node.status, master_url="spark://h:7077", worker_address="[::1]:7078", connect_port=15_002, spark_ports=(4041, 7079)
    )
    assert spark_ports([msgspec.structs.replace(node, status=status)]) == (
        set() if role is Role.WORKER else {7077, 7078, 15_002, 4041, 7079}
    )


def test_a_view_says_what_became_of_it() -> None:
    running, ended = up(cluster()), msgspec.structs.replace(cluster(), target=Target.TERMINATED, ended=True)
    tcp = mapping(1, 5432, TCP, 15_432)
    rows = {
        PortStatus.ACTIVE: PortRow(mapping=tcp, opened=running.incarnation),
        PortStatus.PENDING: PortRow(mapping=tcp),
        PortStatus.FAILED: PortRow(mapping=tcp, fault="taken"),
    }
    for status, row in rows.items():
        shown = view(row, running, base_url="http://host:8080", http_port=8080)
        assert (shown.status, shown.url, shown.external_port) == (status, "tcp://127.0.0.1:15432", 15_432)
        assert view(row, ended, base_url="", http_port=8080).status is PortStatus.INACTIVE
    http = view(PortRow(mapping=mapping(2, 8888)), running, base_url="http://host:8080", http_port=8080)
    assert (http.status, http.url, http.external_port) == (PortStatus.ACTIVE, f"http://host:8080/ports/{ID}/8888/", 8080)
