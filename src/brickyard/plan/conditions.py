"""What a condition task finds. Pure."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation

from brickyard.domain.run import Attempt, Conclusion, Run, RunResultState, Task, TerminationCode
from brickyard.domain.tasks import ConditionOp, ConditionTask
from brickyard.plan.references import resolved

_NUMERIC: Mapping[ConditionOp, Callable[[Decimal, Decimal], bool]] = {
    ConditionOp.GREATER_THAN: operator.gt,
    ConditionOp.GREATER_THAN_OR_EQUAL: operator.ge,
    ConditionOp.LESS_THAN: operator.lt,
    ConditionOp.LESS_THAN_OR_EQUAL: operator.le,
}
_SHOWN = 140


def evaluated(condition: ConditionTask, run: Run, task: Task, attempt: Attempt) -> tuple[str, Conclusion]:
    """The outcome, "true" or "false", and how the attempt ends. Only numbers can be less or greater."""
    left, right = (resolved(each, run, task, attempt) for each in (condition.left, condition.right))
    if condition.op in _NUMERIC:
        try:
            holds = _NUMERIC[condition.op](Decimal(left.strip()), Decimal(right.strip()))
        except InvalidOperation:
            message = f"{condition.op} compares numbers, and got {left[:_SHOWN]!r} and {right[:_SHOWN]!r}."
            return "", Conclusion(RunResultState.FAILED, TerminationCode.INVALID_RUN_CONFIGURATION, message)
    else:
        holds = (left == right) is (condition.op is ConditionOp.EQUAL_TO)
    return str(holds).lower(), Conclusion(RunResultState.SUCCESS, TerminationCode.SUCCESS, "")
