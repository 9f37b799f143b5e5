"""The provider contract as a test suite, for authors of providers (docs/providers.md).

Derive a class whose name begins with Test from `ProviderContract`, and give it the fixture `bench`:

    class TestMine(ProviderContract):
        @pytest.fixture
        def bench(self, tmp_path):
            yield Bench(MyProvider(tmp_path), reopen=lambda: MyProvider(tmp_path))

This module needs pytest; the rest of Brickyard does not.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping

import pytest

from brickyard.domain.nodetypes import NodeType
from brickyard.providers.base import CapacityError, InvalidError, LaunchRequest, Observed, Provider, ProviderError

Refusals = Mapping[type[ProviderError], Callable[[], LaunchRequest]]


class Bench:
    """The provider under test, with what the suite needs to act as its server."""

    def __init__(
        self,
        provider: Provider,
        *,
        reopen: Callable[[], Provider],
        refusals: Refusals | None = None,
        server_url: str = "http://127.0.0.1:1",
        count: Callable[[str], int] | None = None,
        patience_s: float = 60.0,
    ) -> None:
        """`reopen` creates the provider again, as a new server does after the last one was killed. `refusals`: for each error
        that can be provoked, a function that provokes it and returns the request that must then be refused with it. `count`: how
        many machines, containers or processes an instance really has; by default its entry in `observe`."""
        self.provider = provider
        self.refusals = refusals or {}
        self._reopen = reopen
        self._server_url = server_url
        self._count = count
        self._patience_s = patience_s
        self.launched: list[str] = []

    def restart(self) -> None:
        """Simulates that the server is killed and started again."""
        self.provider = self._reopen()

    def request(self, node_type: NodeType | None = None) -> LaunchRequest:
        """A request for a new instance, of the provider's first node type by default."""
        return LaunchRequest(
            instance_id=f"i-{secrets.token_hex(8)}",
            node_type=node_type or self.provider.node_types()[0],
            server_url=self._server_url,
            agent_token=secrets.token_hex(16),
            server_token=secrets.token_hex(16),
            tags={"ClusterId": "contract"},
        )

    def launch(self, request: LaunchRequest) -> str:
        """Launches an instance that is ended after the test."""
        self.launched.append(request.instance_id)
        self.provider.launch(request)
        return request.instance_id

    def listed(self) -> dict[str, Observed]:
        """The instances of this test in the provider's list."""
        return {name: seen for name, seen in self.provider.observe().items() if name in self.launched}

    def comes_to(self, instance_id: str, machines: int) -> bool:
        """Whether an instance soon has this many machines. Two are allowed for a moment: a second agent ends by itself."""
        deadline = time.monotonic() + self._patience_s
        while (found := self._machines(instance_id)) != machines and time.monotonic() < deadline:
            time.sleep(0.05)
        return found == machines

    def _machines(self, instance_id: str) -> int:
        return self._count(instance_id) if self._count is not None else int(instance_id in self.listed())

    def end(self, instance_id: str) -> None:
        """Terminates the instance until it is no longer listed, as the server does."""
        deadline = time.monotonic() + self._patience_s
        while True:
            self.provider.terminate(instance_id, reason="the contract's test")
            if instance_id not in self.provider.observe():
                return
            assert time.monotonic() < deadline, f"{instance_id} is still listed after {self._patience_s:.0f} s of terminate"
            time.sleep(0.05)


def at_once(call: Callable[[], object], *, threads: int = 6) -> list[BaseException]:
    """Makes the call from several threads at once; returns the exceptions raised."""
    raised: list[BaseException] = []
    ready = threading.Barrier(threads)

    def run() -> None:
        ready.wait()
        try:
            call()
        except BaseException as error:
            raised.append(error)

    running = [threading.Thread(target=run) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return raised


class ProviderContract:
    """See the module docstring. No test leaves an instance behind."""

    @pytest.fixture
    def bench(self) -> Iterator[Bench]:
        """The provider under test; override it."""
        raise NotImplementedError("give the class a fixture `bench`: see brickyard.testing.contract")
        yield

    @pytest.fixture(autouse=True)
    def ends_what_it_launched(self, bench: Bench) -> Iterator[None]:
        yield
        for instance_id in bench.launched:
            bench.end(instance_id)

    def test_it_says_what_it_is(self, bench: Bench) -> None:
        assert bench.provider.name
        assert bench.provider.where in ("here", "elsewhere", "nowhere")

    def test_node_types_are_there_and_have_names_of_their_own(self, bench: Bench) -> None:
        types = bench.provider.node_types()
        assert types, "something must be on offer"
        assert len({each.node_type_id for each in types}) == len(types)
        assert all(each.num_cores > 0 and each.memory_mb > 0 for each in types)

    def test_a_launch_is_idempotent_also_at_once_and_after_a_crash_of_the_caller(self, bench: Bench) -> None:
        request = bench.request()
        bench.launched.append(request.instance_id)
        assert at_once(lambda: bench.provider.launch(request)) == []
        assert bench.comes_to(request.instance_id, machines=1)
        bench.launch(request)
        bench.restart()  # it did not learn the outcome of its launch and asks again
        bench.launch(request)
        assert bench.comes_to(request.instance_id, machines=1)
        assert bench.listed()[request.instance_id].alive

    def test_observe_lists_all_at_once(self, bench: Bench) -> None:
        assert bench.listed() == {}
        names = {bench.launch(bench.request()) for _ in range(2)}
        listed = bench.listed()
        assert set(listed) == names, "an instance is listed from the moment that its launch was accepted"
        assert all(seen.instance_id == name and seen.alive for name, seen in listed.items())

    def test_a_restarted_server_adopts_and_ends_what_there_is(self, bench: Bench) -> None:
        first, second = (bench.launch(bench.request()) for _ in range(2))
        bench.restart()
        assert {name: seen.alive for name, seen in bench.listed().items()} == {first: True, second: True}
        bench.end(first)
        assert set(bench.listed()) == {second}, "the others are left alone"

    def test_terminate_is_repeated_until_nothing_is_listed(self, bench: Bench) -> None:
        instance_id = bench.launch(bench.request())
        assert at_once(lambda: bench.provider.terminate(instance_id, reason="at once")) == []
        bench.restart()  # while the termination runs
        bench.end(instance_id)
        assert bench.comes_to(instance_id, machines=0)
        bench.provider.terminate(instance_id, reason="once more")
        bench.provider.terminate("i-nobody-knows", reason="an unknown one is a success")

    def test_what_is_being_terminated_is_not_launched_again(self, bench: Bench) -> None:
        request = bench.request()
        bench.launch(request)
        bench.provider.terminate(request.instance_id, reason="it is to go")
        if request.instance_id in bench.provider.observe():  # gone instances need not be remembered: ids are never reused
            with pytest.raises(InvalidError):
                bench.provider.launch(request)
            bench.end(request.instance_id)

    def test_errors_say_what_to_do(self, bench: Bench) -> None:
        for kind, prepare in bench.refusals.items():
            request = prepare()
            bench.launched.append(request.instance_id)
            with pytest.raises(ProviderError) as raised:
                bench.provider.launch(request)
            assert type(raised.value) is kind
            assert str(raised.value), "the message is shown to people"
            if isinstance(raised.value, CapacityError):
                assert raised.value.asked and raised.value.left
            assert request.instance_id not in bench.provider.observe(), "what was refused does not exist"

    def test_it_is_safe_to_call_from_many_threads(self, bench: Bench) -> None:
        going, staying = bench.request(), bench.request()
        bench.launched += [going.instance_id, staying.instance_id]

        def work() -> None:
            bench.provider.launch(staying)
            bench.provider.observe()
            bench.provider.node_types()
            bench.provider.capacity()
            bench.provider.terminate(going.instance_id, reason="from many threads")

        assert at_once(work) == []
        assert bench.listed()[staying.instance_id].alive
