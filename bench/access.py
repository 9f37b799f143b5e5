"""What permissions, policies and directories of people cost: one table for each part (`_access_NAME.py`). Exit code 1 when a
limit is missed (marked ✗)."""

from __future__ import annotations

import sys

from bench import _access_people, _access_policies


def main() -> int:
    return max([_access_policies.main(), _access_people.main()])


if __name__ == "__main__":
    sys.exit(main())
