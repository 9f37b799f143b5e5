"""The decisions of the /v1/clusters dialect: its fields and those of a specification, and the progress of starts. Pure."""
