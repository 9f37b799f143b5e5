"""What providers say of instances, for people: which of it is written down, and how it is shown. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from brickyard.domain.cluster import Instance
from brickyard.domain.instances import InstanceState
from brickyard.domain.node import Role

LIMIT = 500  # characters
EVERY_S = 5.0  # between two changes of one instance's message: a countdown in it costs little
MOST_EVENTS = 8  # for one period of waiting


class Messages:
    """Which messages to write. Remembers what was written last, so that a message that stays the same costs nothing."""

    def __init__(self) -> None:
        self._written: dict[str, tuple[str, float]] | None = None  # the text, and when

    def look(self, telling: Mapping[str, str], *, now_s: float) -> dict[str, str]:
        """The messages that have changed. At the first look, when nothing is known of what was written before, these are all."""
        before = self._written
        self._written = written = {}
        changed: dict[str, str] = {}
        for instance_id, message in telling.items():
            text = brief(message)
            last, at_s = (before or {}).get(instance_id, ("", float("-inf")))
            if before is None or (text != last and now_s - at_s >= EVERY_S):
                changed[instance_id] = text
                written[instance_id] = (text, now_s)
            else:
                written[instance_id] = (last, at_s)
        return changed

    def has_said(self, instance_id: str) -> bool:
        """Whether something was written of that instance."""
        return bool((self._written or {}).get(instance_id, ("", 0.0))[0])

    def forget(self) -> None:
        """Another server may write from now on."""
        self._written = None


def brief(message: str) -> str:
    """The message as one line of limited length."""
    line = " ".join("".join(each if each.isprintable() else " " for each in message).split())
    return line if len(line) <= LIMIT else f"{line[: LIMIT - 3]}..."


def sentence(message: str) -> str:
    """The message as the beginning of a sentence."""
    return message[:1].upper() + message[1:]


def waiting(nodes: Iterable[Instance]) -> list[Instance]:
    """The nodes that wait for something that their provider tells: the driver first, then in a fixed order."""
    found = (node for node in nodes if coming(node) and node.provider_message)
    return sorted(found, key=lambda node: (node.role is Role.WORKER, node.instance_id))


def warned(nodes: Iterable[Instance]) -> list[Instance]:
    """The nodes that run, and of which their provider says something all the same, such as that their time is almost over: in the
    same order."""
    found = (node for node in nodes if node.state is InstanceState.REGISTERED and node.provider_message)
    return sorted(found, key=lambda node: (node.role is Role.WORKER, node.instance_id))


def coming(node: Instance) -> bool:
    """Whether the provider is still to bring it: its agent has not called."""
    return node.state in (InstanceState.REQUESTED, InstanceState.LAUNCHED)
