"""Ways into a cluster beside its API: Spark Connect, the Spark UI. They speak other protocols; services decide who may enter."""
