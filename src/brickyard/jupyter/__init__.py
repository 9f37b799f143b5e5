"""A Jupyter kernel whose cells run in an execution context of a cluster (docs/jupyter.md).

It is a separate program, started by Jupyter, and an ordinary client of the API, with the official SDK.
"""
