"""What a user is told who needs Delta Lake from Python."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from brickyard.runtime.node.kernel.missing import WHAT_TO_DO, explain


def _raised(code: str, names: dict[str, object] | None = None) -> BaseException:
    try:
        exec(code, names or {})  # noqa: S102 - the test's own
    except BaseException as error:
        explain(error, error.__traceback__)
        return error
    raise AssertionError("nothing was raised")


@pytest.mark.parametrize("code", ["import delta", "from delta.tables import DeltaTable", "import delta.tables as t"])
def test_its_package_is_not_there(code: str) -> None:
    assert str(_raised(code)) == f"No module named 'delta'. {WHAT_TO_DO}"


def test_its_package_is_there_and_its_jars_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    package = ModuleType("delta.tables")
    exec("def for_path():\n    raise TypeError(\"'JavaPackage' object is not callable\")\n", package.__dict__)  # noqa: S102 - the test's own
    monkeypatch.setitem(sys.modules, "delta.tables", package)
    assert str(_raised("table.for_path()", {"table": package})) == f"'JavaPackage' object is not callable. {WHAT_TO_DO}"


@pytest.mark.parametrize(
    "code", ["import deltas", "raise ImportError('delta')", "raise TypeError(\"'JavaPackage' object is not callable\")", "1 / 0"]
)
def test_other_errors_stay_as_they_are(code: str) -> None:
    assert "Delta Lake" not in str(_raised(code))
