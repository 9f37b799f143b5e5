"""What runs on a node, in the runtime's own interpreter: the node host, Spark driven through Py4J, kernels, the training.

Brickyard is not installed there. `start.py` makes this directory the package `_brickyard_node` of its process, without a place on
`sys.path`: users' modules of any name can neither hide ours nor be hidden by them. So all imports in here are relative, and name
nothing of the rest of Brickyard.
"""
