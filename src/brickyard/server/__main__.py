"""`python -m brickyard.server`, which `brickyard up --detach` starts. Settings come from the environment."""

from __future__ import annotations

import sys

from brickyard.server.process import main

if __name__ == "__main__":
    sys.exit(main())
