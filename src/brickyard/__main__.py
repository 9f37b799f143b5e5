"""`python -m brickyard` is the brickyard command."""

from brickyard.cli import main

if __name__ == "__main__":
    main()
