"""What the providers of distributed engines (Ray, Kubernetes, Slurm) share: their settings, and what they run on a machine."""
