"""Work on running clusters: who may attach, execution contexts, Spark Connect sessions, and how both end."""
