"""`python -m brickyard` is the brickyard command."""

import sys

from brickyard.cli import main

if __name__ == "__main__":
    sys.exit(main())
