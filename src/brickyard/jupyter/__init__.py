"""A Jupyter kernel whose cells run in an execution context of a cluster (docs/jupyter.md).

It is a program of its own, started by Jupyter: a client of the API like any other, with the official SDK.
"""
