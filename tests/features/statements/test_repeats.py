"""Calls of the Statement Execution API that are sent again: a statement runs once. In both databases."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from brickyard.domain.delivery import Delivery, delivery_here
from brickyard.domain.errors import Aborted
from brickyard.features.statements.model import ExecutionState, StatementAnswer
from brickyard.features.statements.repeats import REPEATED_MS
from tests.features.statements.test_statements import ASK, Office
from tests.support.databases import both_databases
from tests.support.desk import ADMIN, USER

INSERT = "INSERT INTO t VALUES (1)"


@contextlib.contextmanager
def call() -> Iterator[Delivery]:
    """What the edge tells of a call."""
    delivery = Delivery()
    reset = delivery_here.set(delivery)
    try:
        yield delivery
    finally:
        delivery_here.reset(reset)


async def answered(office: Office, **fields: Any) -> StatementAnswer:
    with call() as delivery:
        answer = await office.execute(**{"statement": INSERT, **fields})
        await delivery.arrived()
        return answer


@both_databases
async def test_a_client_that_is_gone_gets_its_statement_when_it_asks_again(office: Office) -> None:
    office.spark.go.clear()
    with call() as delivery:
        first = asyncio.create_task(office.execute(statement=INSERT, on_wait_timeout="CANCEL"))
        while not office.spark.ran:
            await asyncio.sleep(0.01)
        again = asyncio.create_task(answered(office, on_wait_timeout="CANCEL"))
        delivery.gone.set()
        assert (await asyncio.wait_for(first, 10)).status.state is not ExecutionState.CANCELED
        assert not again.done()
        delivery.lost()
    office.spark.go.set()
    answer = await again
    assert (office.spark.ran, answer.status.state) == ([answer.statement_id], ExecutionState.SUCCEEDED)
    assert (await answered(office, on_wait_timeout="CANCEL")).statement_id != answer.statement_id, "it had its answer"


@both_databases
async def test_what_a_killed_server_has_not_answered_is_refused_once(office: Office) -> None:
    with call():
        first = await office.execute(statement=INSERT)
    office.statements = office.server()
    with pytest.raises(Aborted, match=first.statement_id):
        await answered(office)
    assert office.spark.ran == [first.statement_id]
    assert (await answered(office)).statement_id != first.statement_id
    assert (await answered(office)).status.state is ExecutionState.SUCCEEDED
    assert len(office.spark.ran) == 3


@both_databases
async def test_only_the_same_call_of_the_same_user_is_a_repetition(office: Office) -> None:
    with call():
        await office.execute(statement=INSERT)
    office.statements = office.server()
    for caller, changes in ((USER, {}), (ADMIN, {"statement": f"{INSERT}, (2)"}), (ADMIN, {"schema": "s"})):
        with call() as delivery:
            await office.statements.execute(caller, msgspec.structs.replace(ASK, **{"statement": INSERT, **changes}))
            await delivery.arrived()
    office.clock.advance(ms=REPEATED_MS + 1)
    await office.statements.run_once()
    await answered(office)
    assert len(office.spark.ran) == 5


async def test_a_query_runs_again(office: Office) -> None:
    with call():
        first = await office.execute()
    office.statements = office.server()
    assert (await answered(office, statement=ASK.statement)).statement_id != first.statement_id


async def test_calls_at_the_same_time_are_each_a_statement(office: Office) -> None:
    found = await asyncio.gather(*(answered(office) for _ in range(5)))
    assert len({each.statement_id for each in found}) == 5
    assert len(office.spark.ran) == 5
