"""The node host: the agent's operations, and the role of this node in its cluster."""
