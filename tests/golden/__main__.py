"""Writes messages.json: `./dev python -m tests.golden [TEST ...]`, by default by all tests that it has sentences of.

What tests say that this machine cannot run stays as it is.
"""

from __future__ import annotations

import os
import sys

import pytest

from tests.support import golden


def main() -> int:
    os.environ[golden.REWRITE] = "1"
    code = pytest.main(["-n", "2", "-q", *(sys.argv[1:] or golden.messages())])
    golden.messages.cache_clear()
    there = {file: golden.known(file, tests) for file, tests in golden.messages().items()}
    golden.write({file: tests for file, tests in there.items() if tests})
    return code


if __name__ == "__main__":
    sys.exit(main())
