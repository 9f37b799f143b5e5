"""What a machine with GPUs has installed. Its directory (`DRIVER`) comes before others on the path of such a machine's Python."""

from pathlib import Path

DRIVER = Path(__file__).parent
