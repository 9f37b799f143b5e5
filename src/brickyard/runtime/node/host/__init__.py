"""The node host: the agent's operations, and this node's role in its cluster."""
