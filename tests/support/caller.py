"""`caller.py PLACE MODULE:FUNCTION ARGUMENTS...` stands for the process that a template (`template.py`) forks for them.

A program of its own that a bare Python runs, in a moment.
"""

import json
import os
import socket
import sys
from pathlib import Path


def main(place: str, call: str, *arguments: str) -> int:
    request = {
        "call": call, "arguments": [], "argv": ["brickyard", *arguments], "environment": dict(os.environ),
        "directory": str(Path.cwd()), "descriptors": [0, 1, 2], "session": False,
    }  # fmt: skip
    body = json.dumps(request).encode()
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(place)
    socket.send_fds(connection, [len(body).to_bytes(4, "big")], [0, 1, 2])
    connection.sendall(body)
    said = b""
    while more := connection.recv(64):
        said += more
    code = int(said.splitlines()[1])
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
