"""`python -m brickyard.server`: what `brickyard up --detach` starts; its settings are in the environment."""

from __future__ import annotations

import sys

from brickyard.server.process import main

if __name__ == "__main__":
    sys.exit(main())
