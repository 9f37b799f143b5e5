"""Writes messages.json: `./dev python -m tests.golden [TEST ...]`, by default by all tests that it has sentences of."""

from __future__ import annotations

import os
import sys

import pytest

from tests.support import golden


def main() -> int:
    os.environ[golden.REWRITE] = "1"
    tests = sys.argv[1:] or list(golden.messages())
    if not sys.argv[1:]:
        golden.FILE.write_text("{}\n")  # what no test says any more goes
    return pytest.main(["-n", "2", "-q", *tests])


if __name__ == "__main__":
    sys.exit(main())
