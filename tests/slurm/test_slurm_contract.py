"""The contract of providers, on a real Slurm: by the commands, and by slurmrestd."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from brickyard.domain.nodetypes import NodeType
from brickyard.providers.base import InvalidError, TransientError
from brickyard.testing.contract import Bench, ProviderContract
from tests.slurm.opening import opened, setup
from tests.slurm.processes import agents_of
from tests.support.patience import PATIENCE_S, until
from tests.support.slurm import NODES, Slurm, SlurmMissing

pytestmark = pytest.mark.extended

NAMED = [
    {"node_type_id": "one", "num_cores": 1, "memory_mb": 512},
    {"node_type_id": "missing", "num_cores": 1, "memory_mb": 512, "engine": {"partition": "nowhere"}},
    {"node_type_id": "large", "num_cores": 1, "memory_mb": 9_000_000},
    {"node_type_id": "featured", "num_cores": 1, "memory_mb": 512, "engine": {"constraint": "quantum"}},
    {"node_type_id": "foreign", "num_cores": 1, "memory_mb": 512, "engine": {"reservation": "theirs"}},
]


def bench_on(slurm: Slurm, tmp_path: Path, **section: object) -> Iterator[Bench]:
    made = setup(tmp_path, "http://127.0.0.1:1", node_types=NAMED, **section)
    bench = Bench(
        opened(slurm, made),
        reopen=lambda: opened(slurm, made),
        count=lambda each: len(agents_of(tmp_path, each)),
        patience_s=PATIENCE_S,
    )
    bench.refusals = {InvalidError: lambda: bench.request(named(bench, "large"))}
    yield bench
    for instance_id in bench.launched:
        bench.end(instance_id)
    until(lambda: slurm.idle() == len(NODES), "the nodes are idle again")


def named(bench: Bench, node_type_id: str) -> NodeType:
    return next(each for each in bench.provider.node_types() if each.node_type_id == node_type_id)


class TestCommands(ProviderContract):
    @pytest.fixture
    def bench(self, slurm: Slurm, tmp_path: Path) -> Iterator[Bench]:
        yield from bench_on(slurm, tmp_path)

    def test_what_can_never_run_is_refused_at_once(self, bench: Bench) -> None:
        gone = NodeType(node_type_id="gone", num_cores=1, memory_mb=512, category="test")
        for node_type in (gone, *(named(bench, each) for each in ("missing", "featured", "foreign"))):
            with pytest.raises(InvalidError):
                bench.provider.launch(bench.request(node_type))
        assert bench.provider.observe() == {}


class TestRest(TestCommands):
    @pytest.fixture
    def bench(self, slurm: Slurm, tmp_path: Path) -> Iterator[Bench]:
        try:
            url = slurm.serve_rest()
        except SlurmMissing as missing:
            pytest.skip(str(missing))
        yield from bench_on(slurm, tmp_path, rest_url=url)


class TestTokens(TestCommands):
    @pytest.fixture
    def bench(self, slurm: Slurm, tmp_path: Path) -> Iterator[Bench]:
        try:
            url, token = slurm.serve_rest_with_tokens()
        except SlurmMissing as missing:
            pytest.skip(str(missing))
        yield from bench_on(slurm, tmp_path, rest_url=url, rest_token_file=str(token))

    def test_a_token_that_is_not_valid_may_become_so(self, bench: Bench, slurm: Slurm) -> None:
        token = slurm.home / "token"
        good = token.read_text()
        token.write_text("SLURM_JWT=wrong")
        for call in (bench.provider.observe, lambda: bench.provider.launch(bench.request(named(bench, "one")))):
            with pytest.raises(TransientError):
                call()
        token.write_text(good)
        assert bench.provider.observe() == {}
