"""`python -m brickyard.jupyter -f CONNECTION_FILE`: started by Jupyter."""

from __future__ import annotations

from ipykernel.kernelapp import IPKernelApp

from brickyard.jupyter.kernel import ClusterKernel

if __name__ == "__main__":
    IPKernelApp.launch_instance(kernel_class=ClusterKernel)
