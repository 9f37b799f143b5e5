"""How deep random and repeated tests go: enough in every run, and more when somebody asks for it."""

import os

# `BRICKYARD_TEST_DEEP=1 ./dev test tests/api/test_openapi.py`, at night and before a release: tests that draw their cases draw
# more of them. What a deep run finds becomes a test of its own, which every run has.
DEEP = os.environ.get("BRICKYARD_TEST_DEEP", "") == "1"

# `./dev test --all` sets it: also what is slow and rarely breaks, and clusters of two lines of Spark side by side.
ALL = os.environ.get("BRICKYARD_TEST_ALL", "") == "1"
