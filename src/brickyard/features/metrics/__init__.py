"""What the nodes of clusters use, now and in the past."""
