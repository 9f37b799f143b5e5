"""Execution contexts: queues of commands, and kernels as seen from the node host."""
