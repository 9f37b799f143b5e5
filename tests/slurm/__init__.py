"""The Slurm provider: on a real Slurm where Debian's packages are there, and its decisions everywhere."""
