"""The settings of provider ray: [ray]."""

from __future__ import annotations

import msgspec

from brickyard.domain.decoding import converter
from brickyard.domain.nodetypes import NodeType
from brickyard.providers.base import SetupError
from brickyard.providers.engines.sections import EngineSection


class Wishes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`engine` of a node type in the settings: what Ray is asked for beside cores, memory and GPUs."""

    resources: dict[str, float] = {}  # Ray resources, such as those that `ray start --resources` gives a machine
    accelerator_type: str = ""  # Ray's name of the GPU: A100, H100, L4


_to_wishes = converter(Wishes)


class RaySection(EngineSection, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """See docs/ray.md."""

    address: str = ""  # of Ray's head, 10.0.0.5:6379; empty: the Ray that runs on this machine
    node_address: str = ""  # of this machine's own Ray node, if it was started with another --node-ip-address than Ray finds
    python: str = ""  # an interpreter of this machine with the cluster's version of Ray; empty: the server's own
    agent_python: str = ""  # on Ray's machines: one with this version of Brickyard; empty: Ray's own, to which agents are brought
    autoscaler: bool = False  # Ray adds machines by itself: what does not fit waits

    def wishes(self) -> dict[str, Wishes]:
        """`engine` of each node type in the settings. Raises SetupError."""
        found = {}
        for each in self.node_types:
            try:
                found[each.node_type_id] = _to_wishes(each.engine)
            except msgspec.ValidationError as error:
                raise SetupError(f"ray.node_types: engine of {each.node_type_id} is wrong: {error}.") from error
        return found


def asked(node_type: NodeType, wishes: Wishes) -> dict[str, float]:
    """The Ray resources of an instance. Memory is what Ray counts with; nothing holds an instance to it."""
    found: dict[str, float] = {"CPU": node_type.num_cores, "memory": float(node_type.memory_mb << 20), **wishes.resources}
    if node_type.num_gpus:
        found["GPU"] = float(node_type.num_gpus)
    if wishes.accelerator_type:
        found[f"accelerator_type:{wishes.accelerator_type}"] = 0.001
    return found
