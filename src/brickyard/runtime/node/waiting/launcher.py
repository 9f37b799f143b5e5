"""Stands in for `java` while an executor's JVM waits on this node. A copy of this file, with the interpreter in its first line,
is DIRECTORY/java/bin/java; DIRECTORY/home is a link to Java's own home.

Spark's worker starts this program in the place of Java. It hands its command, environment, working directory and output to the
holder of that JVM (`holder.py`, which listens in DIRECTORY), and then lives and dies with the JVM: it passes signals on, and ends
with the JVM's exit code. If the JVM cannot do what the command asks for, or there is none, this program becomes Java.

It imports as little as possible: Spark waits for it. It runs alone, so it knows nothing of the package.
"""

from __future__ import annotations

import array
import os
import signal
import socket
import sys

TYPE_CHECKING = False  # importing `typing` would take time
if TYPE_CHECKING:
    from typing import NoReturn

NAMES = ("SIGHUP", "SIGINT", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGTERM", "SIGCONT", "SIGPWR")
SIGNALS = tuple(getattr(signal, name) for name in NAMES if hasattr(signal, name))
KILLED = 128 + signal.SIGKILL


def main() -> None:
    directory = sys.argv[0].rsplit("/", 3)[0]
    home = os.environ["JAVA_HOME"] = os.readlink(f"{directory}/home")  # noqa: PTH115 - pathlib would take time
    command = [f"{home}/bin/java", *sys.argv[1:]]
    try:
        link = connect(directory)
    except OSError:  # nothing waits any more
        become(command)
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # until it is known who has to hear them
    try:
        answer, said = hand_over(link, command)
    except OSError:
        answer, said = "cold the waiting JVM has ended", b""
    if answer == "taken":
        os._exit(follow(link, said))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    link.close()
    sys.stderr.write(f"This executor starts its own JVM: {answer.partition(' ')[2] or 'the waiting JVM has ended'}.\n")
    sys.stderr.flush()
    become(command)


def become(command: list[str]) -> NoReturn:
    os.execv(command[0], command)  # noqa: S606 - this process is to be Java


def connect(directory: str) -> socket.socket:
    """Returns a connection to the holder. Raises OSError."""
    link = socket.socket(socket.AF_UNIX)
    place = os.open(directory, os.O_PATH | os.O_DIRECTORY)  # the path of a socket may have no more than 107 bytes
    link.connect(f"/proc/self/fd/{place}/socket")
    os.close(place)
    return link


def hand_over(link: socket.socket, command: list[str]) -> tuple[str, bytes]:
    """Sends what the JVM needs to go on in this process's place; returns the answer, and what came behind it: the JVM may have
    ended already. Raises OSError."""
    variables = [key + b"=" + value for key, value in os.environb.items()]
    parts = [
        os.fsencode(os.getcwd()),  # noqa: PTH109 - as above
        b"%d" % len(command),
        *map(os.fsencode, command),
        *variables,
    ]
    text = b"\0".join(parts)
    link.sendmsg([len(text).to_bytes(4, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [1, 2]))])
    link.sendall(text)
    answer = b""
    while b"\n" not in answer:
        piece = link.recv(4096)
        if not piece:
            break
        answer += piece
    line, _, said = answer.partition(b"\n")
    return os.fsdecode(line).strip(), said


def follow(link: socket.socket, said: bytes) -> int:
    """Passes signals on until the JVM has ended; returns its exit code. `said`: what of it has come."""

    def relay(number: int, _frame: object) -> None:
        try:
            link.send(bytes([number]))
        except OSError:  # it has just ended
            return

    for number in SIGNALS:
        signal.signal(number, relay)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    try:
        while piece := link.recv(64):
            said += piece
    except OSError:
        return KILLED
    return int(said) if said.strip().isdigit() else KILLED  # whoever says nothing was killed, and the JVM with it


if __name__ == "__main__":
    main()
