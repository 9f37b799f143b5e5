"""Code that runs on a node in the runtime's interpreter: node host, Spark driven through Py4J, kernels, training.

Brickyard is not installed there. `start.py` makes this directory the package `_brickyard_node` of its process without adding
it to `sys.path`, so users' modules can neither hide ours nor be hidden by them. Therefore all imports in here are relative,
and none refers to the rest of Brickyard.
"""
