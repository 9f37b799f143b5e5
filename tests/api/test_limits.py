"""Rate limits of principals, and what slows down the guessing of credentials."""

from __future__ import annotations

import asyncio
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.core import Config

from brickyard.access.buckets import Buckets
from brickyard.api.edge.authentication import UNKNOWN, Authenticator
from brickyard.api.edge.ratelimits import BURST_S, RateLimits
from brickyard.api.edge.registry import Need, Operation
from brickyard.api.edge.throttle import FAILURES, LoginThrottle
from brickyard.domain.access import ObjectKind, Permission
from brickyard.domain.caller import Caller
from brickyard.domain.errors import RequestLimitExceeded, Unauthenticated
from brickyard.plan.ratelimits import Limit
from tests.support.edge import USER, edge, sdk
from tests.support.golden import Golden
from tests.support.server import TOKEN, Server

OTHER = Caller(user_name="other@example.com", user_id="8", is_admin=False, token_id="o")
GOOD = "dapi" + "a" * 32


class Clock:
    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


async def _nothing(*_: Any) -> None:
    return None


def operation(name: str) -> Operation:
    return Operation(
        name=name,
        method="GET",
        paths=(f"/api/2.0/{name}",),
        handler=_nothing,
        summary="",
        needs=(Need(Permission.WORKSPACE_ACCESS, ObjectKind.WORKSPACE),),
    )


def test_a_principal_may_burst_and_then_waits_while_others_go_on(golden: Golden) -> None:
    clock = Clock()
    limits = RateLimits({"a": 2.0}, [operation("a.x"), operation("a.y"), operation("b.x")], monotonic=clock)
    for number in range(int(2 * BURST_S)):
        limits.take("a.x" if number % 2 else "a.y", USER)
    with golden.refused(RequestLimitExceeded) as refused:
        limits.take("a.x", USER)
    assert refused.value.retry_after_s == 1
    limits.take("a.x", OTHER)
    limits.take("b.x", USER)
    clock.now_s += 0.5
    limits.take("a.x", USER)
    with pytest.raises(RequestLimitExceeded):
        limits.take("a.x", USER)


def test_a_slow_limit_says_how_long_to_wait() -> None:
    limits = RateLimits({"*": 0.1}, [operation("a.x")], monotonic=Clock())
    limits.take("a.x", USER)
    with pytest.raises(RequestLimitExceeded) as refused:
        limits.take("a.x", USER)
    assert refused.value.retry_after_s == 10


def test_the_buckets_are_bounded_and_forget_the_least_recently_used() -> None:
    buckets = Buckets(Limit(1, 60), most=3)
    for key in ("a", "b", "c", "a", "d"):
        buckets.spend(key, 100.0)
    assert len(buckets) == 3
    assert [key for key in "abcd" if buckets.wait_s(key, 100.0)] == ["a", "c", "d"]


def test_the_sdk_waits_for_the_limit_and_then_gets_through() -> None:
    """The SDK reads Retry-After and repeats the call."""
    with edge(operations=[operation("limited")], rate_limits={"limited": 1.0}) as url:
        client, began = sdk(url), time.monotonic()
        for _ in range(int(BURST_S) + 1):
            client.api_client.do("GET", "/api/2.0/limited")
        assert time.monotonic() - began > 0.9


class Guessed:
    """An authenticator whose only valid token is GOOD, and how often it looked anything up."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.looked = 0
        self.throttle = LoginThrottle(monotonic=self.clock)
        self.authenticator = Authenticator(tokens=self, links=None, throttle=self.throttle)  # type: ignore[arg-type]
        self.valid = {GOOD}

    def known(self, bearer: str) -> Caller | None:
        return None

    async def authenticate(self, bearer: str) -> Caller | None:
        self.looked += 1
        return USER if bearer in self.valid else None

    def ask(self, token: str, address: str = "10.0.0.1") -> str:
        try:
            return asyncio.run(self.authenticator.of_token(token, address=address)).user_name
        except Unauthenticated as error:
            return error.message
        except RequestLimitExceeded as error:
            assert error.retry_after_s == FAILURES.interval_s
            return "wait"

    def exhaust(self, address: str = "10.0.0.1") -> None:
        for number in range(int(FAILURES.burst)):
            assert self.ask(f"dapi{number:032x}"[::-1], address) == UNKNOWN


def test_an_address_that_keeps_failing_waits_and_learns_nothing() -> None:
    world = Guessed()
    world.exhaust()
    looked = world.looked
    assert world.ask("wrong") == "wait"
    assert world.ask(GOOD) == "wait"  # a guess that is right looks like one that is wrong
    assert world.looked == looked
    assert world.ask("wrong", "10.0.0.2") == UNKNOWN
    world.clock.now_s += FAILURES.interval_s
    assert world.ask(GOOD) == USER.user_name


def test_a_credential_that_was_accepted_before_gets_in_from_an_address_that_waits() -> None:
    world = Guessed()
    assert world.ask(GOOD, "10.9.9.9") == USER.user_name
    world.exhaust()
    assert world.ask("wrong") == "wait"
    assert world.ask(GOOD) == USER.user_name
    world.valid.clear()  # revoked
    assert world.ask(GOOD) == UNKNOWN
    assert world.ask(GOOD) == "wait"


def test_guesses_of_one_token_from_many_addresses_wait_too() -> None:
    world = Guessed()
    for number in range(int(FAILURES.burst)):
        assert world.ask(f"dapi12345678{number:024x}", f"10.0.1.{number}") == UNKNOWN
    assert world.ask("dapi12345678" + "f" * 24, "10.0.2.1") == "wait"
    assert world.ask("dapi87654321" + "f" * 24, "10.0.2.1") == UNKNOWN


def test_an_ipv6_network_counts_as_one_address() -> None:
    world = Guessed()
    for number in range(int(FAILURES.burst)):
        assert world.ask(f"{number:032x}"[::-1], f"2001:db8::{number:x}") == UNKNOWN
    assert world.ask("another", "2001:db8::ffff") == "wait"
    assert world.ask("another", "2001:db8:0:1::1") == UNKNOWN
    world.exhaust("::ffff:10.0.0.1")
    assert world.ask("another", "10.0.0.1") == "wait"


def test_a_call_without_a_credential_is_no_failure() -> None:
    world = Guessed()
    for _ in range(100):
        assert world.ask("") == UNKNOWN
    assert world.ask("wrong") == UNKNOWN


def test_the_metrics_token_cannot_be_guessed_either() -> None:
    def status(url: str, token: str) -> int:
        request = urllib.request.Request(f"{url}/metrics", headers={"Authorization": f"Bearer {token}"})  # noqa: S310 - loopback
        try:
            with urllib.request.urlopen(request) as answer:  # noqa: S310 - loopback
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    with edge(metrics_token="right") as url:
        assert status(url, "right") == 200
        assert [status(url, f"wrong-{number}") for number in range(25)].count(429) >= 4
        assert status(url, "right") == 200


def test_a_client_secret_cannot_be_guessed_either(tmp_path: Path) -> None:
    def status(url: str, secret: str) -> int:
        sent = f"grant_type=client_credentials&client_id=somebody&client_secret={secret}".encode()
        try:
            with urllib.request.urlopen(f"{url}/oidc/v1/token", data=sent) as answer:  # noqa: S310 - loopback
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    with Server.running(tmp_path, provider="simulated") as server:
        found = [status(server.url, f"wrong-{number}") for number in range(24)]
    assert found[:20] == [401] * 20
    assert 429 in found[20:]


def test_a_failure_is_logged_without_the_credential(capsys: pytest.CaptureFixture[str]) -> None:
    world = Guessed()
    world.ask("dapi-very-secret-indeed")
    said = capsys.readouterr()
    assert "invalid_credential" in said.out + said.err
    assert "10.0.0.1" in said.out + said.err
    assert "very-secret" not in said.out + said.err


def test_the_setting_reaches_the_server(tmp_path: Path, golden: Golden) -> None:
    with Server.running(tmp_path, provider="simulated", rate_limits="clusters.list_zones=0.1") as server:
        client = server.client()
        client.clusters.list_zones()
        impatient = WorkspaceClient(config=Config(host=server.url, token=TOKEN, auth_type="pat", retry_timeout_seconds=1))
        with pytest.raises(TimeoutError) as refused:
            impatient.clusters.list_zones()
        golden(str(refused.value.__cause__), "clusters.list_zones")
        client.clusters.spark_versions()


def test_a_limit_of_nothing_is_refused(tmp_path: Path, golden: Golden) -> None:
    with pytest.raises(RuntimeError) as failed, Server.running(tmp_path, provider="simulated", rate_limits="cluster=1"):
        pass
    golden(str(failed.value.__cause__), "rate_limits")
