"""Jobs: tasks that are kept, and run when they are asked for or when their time has come. Each run is one of `features.runs`."""
