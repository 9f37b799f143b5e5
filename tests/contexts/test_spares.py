"""Spare kernels: a context takes the one that is ready or coming, and what nobody takes is kept for the next, or ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from brickyard.runtime.node.contexts import contexts
from brickyard.runtime.node.contexts.client import KernelDied
from tests.support.patience import PATIENCE_S, until


class Kernel:
    """A process that is ready when the test says so."""

    def __init__(self, ready: threading.Event) -> None:
        self._ready = ready
        self.ended = False
        self.proceeded = False

    def proceed(self) -> None:
        self.proceeded = True

    def connect(self, *, timeout_s: float, wanted: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not self._ready.wait(0.01):
            if not wanted() or time.monotonic() > deadline:
                raise KernelDied("not wanted any more")

    def poll(self) -> int | None:
        return 9 if self.ended else None

    def interrupt(self) -> None:
        """It runs nothing."""

    def belong(self, context_id: str, user: str, ask: Any) -> None:
        """It asks nothing."""

    def end(self, *, keep: bool = False) -> None:
        self.ended = True


class Factory:
    made: list[Kernel]
    held: list[bool]
    ready: threading.Event

    def __init__(self, **_: Any) -> None:
        """Everything is the class's, so that a test can see it."""

    def start(self, *, hold: bool = False, after: object = None) -> Kernel:
        type(self).made.append(Kernel(self.ready))
        type(self).held.append(hold)
        return self.made[-1]

    def close(self) -> None:
        """It has nothing."""


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """The contexts of a node, with kernels that are no processes."""
    Factory.made, Factory.held, Factory.ready = [], [], threading.Event()
    monkeypatch.setattr(contexts, "KernelFactory", Factory)
    opened = threading.Event()
    opened.set()
    access: Any = None  # nothing is opened
    driver = MagicMock(spark_open=opened.wait)
    made: Any = contexts.Contexts(python="python", node_dir=str(tmp_path), access=access, env={}, node=driver)
    made.opened = opened
    yield made
    made.close()
    assert all(kernel.ended for kernel in Factory.made), "none outlives the node"


def running(node: Any, name: str) -> Callable[[], bool]:
    return lambda: bool(node.status(name)["status"] == "Running")


def test_a_context_waits_for_the_spare_that_is_coming(node: Any) -> None:
    node.warm()
    until(lambda: Factory.made)
    node.create("one", "python")
    assert node.status("one")["status"] == "Pending"
    Factory.ready.set()
    until(running(node, "one"))
    assert len(Factory.made) == 1, "no second kernel was started beside it"


def test_a_coming_spare_is_given_back_when_its_context_goes(node: Any) -> None:
    node.warm()
    until(lambda: Factory.made)
    for number in range(3):
        node.create(f"gone-{number}", "python")
        node.destroy(f"gone-{number}")
        node.warm()
    node.create("one", "python")
    node.create("other", "python")  # there is one spare only
    until(lambda: len(Factory.made) == 2)
    Factory.ready.set()
    until(running(node, "one"))
    until(running(node, "other"))
    assert not any(kernel.ended for kernel in Factory.made)


def test_a_spare_that_died_is_replaced(node: Any) -> None:
    Factory.ready.set()
    node.warm()
    until(lambda: Factory.made)
    Factory.made[0].ended = True
    node.create("one", "python")
    until(running(node, "one"))
    assert len(Factory.made) == 2


def test_a_kernel_that_was_held_is_the_first_to_be_used(node: Any) -> None:
    node.preload()
    assert Factory.held == [True]
    assert not Factory.made[0].proceeded, "there is no driver yet"
    Factory.ready.set()
    node.warm()
    node.create("one", "python")
    until(running(node, "one"))
    assert Factory.made[0].proceeded
    assert len(Factory.made) == 1


def test_a_kernel_joins_spark_only_once_sessions_may_be_made(node: Any) -> None:
    """The first session brings the catalog of tables: a kernel that came before it would see none of them."""
    node.opened.clear()
    Factory.ready.set()
    node.create("one", "python")
    node.create("gone", "python")
    until(lambda: len(Factory.made) == 2)
    assert Factory.held == [True, True], "they start meanwhile"
    node.destroy("gone")
    until(lambda: sum(kernel.ended for kernel in Factory.made) == 1)
    assert not any(kernel.proceeded for kernel in Factory.made if not kernel.ended)
    node.opened.set()
    until(running(node, "one"))


def test_what_is_held_or_coming_ends_with_the_node(node: Any) -> None:
    node.preload()
    node.warm()
    node.create("one", "python")
    node.preload()
    node.close()
    assert all(kernel.ended for kernel in Factory.made)
