"""Execution contexts: command queues, and kernels as the node host sees them."""
