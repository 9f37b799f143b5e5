"""The brickyard command."""
