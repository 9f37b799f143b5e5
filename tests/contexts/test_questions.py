"""What one context's kernel may ask, and the notebooks that it runs: pure, with contexts that only remember."""

from __future__ import annotations

from typing import Any

import pytest

from brickyard.runtime.node.contexts.asking import Asking
from brickyard.runtime.node.contexts.contexterror import ContextError
from brickyard.runtime.node.contexts.questions import MAX_RUNS, Children, Questions


class Parent(Asking):
    user, asks_as, bounds = "ada@example.com", "parent", (3, 1)


class Remembered(Children):
    """The node's contexts, and the node."""

    def __init__(self) -> None:
        self.node: Any = self
        self.made: dict[str, dict[str, Any]] = {}
        self.results: dict[str, Any] | None = None
        self.refusal: ContextError | None = None

    def ask(self, context_id: str, **question: str) -> dict[str, Any]:
        return {"asked": context_id, **question}

    def create(
        self, context_id: str, language: str, user: str = "", *, share: int = 0, reserve: int = 0, asks_as: str = ""
    ) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.made[context_id] = {"user": user, "share": share, "reserve": reserve, "asks_as": asks_as}

    def execute(self, context_id: str, command_id: str, language: str, command: str) -> None:
        self.made[context_id]["command"] = command

    def command_status(self, context_id: str, command_id: str) -> dict[str, Any]:
        return {"results": self.results}

    def exit_value(self, context_id: str, command_id: str) -> str | None:
        return "value"

    def destroy(self, context_id: str) -> None:
        if context_id not in self.made:
            raise ContextError("NOT_FOUND", "there is none")
        del self.made[context_id]


@pytest.fixture
def contexts() -> Remembered:
    return Remembered()


@pytest.fixture
def questions(contexts: Remembered) -> Questions:
    return Questions(Parent(), contexts)


def run(questions: Questions, name: str) -> dict[str, Any]:
    return questions.answer({"run": {"name": name, "path": "/x", "arguments": {"a": "1"}}})


def test_the_workspace_is_asked_in_the_name_of_the_context(questions: Questions) -> None:
    assert questions.answer({"about": True}) == {"user": "ada@example.com"}
    assert questions.answer({"notebook": "/x"}) == {"asked": "parent", "notebook": "/x"}
    assert questions.answer({"scope": "s", "key": "k"}) == {"asked": "parent", "scope": "s", "key": "k"}


def test_a_notebook_runs_in_a_context_of_the_same_user(questions: Questions, contexts: Remembered) -> None:
    assert run(questions, "one") == {}
    (made,) = contexts.made.values()
    assert (made["user"], made["asks_as"], made["share"], made["reserve"]) == ("ada@example.com", "parent", 3, 1)
    assert questions.answer({"look": "one"}) == {"over": False}
    contexts.results = {"resultType": "text", "data": "printed"}
    assert questions.answer({"look": "one"}) == {"over": True, "exit": "value"}
    assert contexts.made == {}, "it has ended with its answer"
    assert questions.answer({"look": "one"})["error_code"] == "NOT_FOUND"


def test_an_error_is_told(questions: Questions, contexts: Remembered) -> None:
    run(questions, "one")
    contexts.results = {"resultType": "error", "summary": "<span>E</span>: a &lt; b", "cause": "trace"}
    assert questions.answer({"look": "one"}) == {"over": True, "error": "E: a < b", "cause": "trace"}


def test_what_runs_ends_with_its_kernel(questions: Questions, contexts: Remembered) -> None:
    for name in ("one", "two", "three"):
        run(questions, name)
    questions.answer({"end": "one"})
    assert questions.answer({"end": "one"}) == {}, "or it has never begun"
    assert len(contexts.made) == 2
    questions.close()
    assert contexts.made == {}
    assert run(questions, "late")["error_code"] == "LIMIT"


def test_there_is_a_limit(questions: Questions, contexts: Remembered) -> None:
    contexts.refusal = ContextError("LIMIT", "no more")
    assert run(questions, "refused") == {"error_code": "LIMIT", "message": "no more"}
    contexts.refusal = None
    for number in range(MAX_RUNS):
        assert run(questions, str(number)) == {}
    assert run(questions, "more")["error_code"] == "LIMIT"
