"""An executor's JVM that has run Spark once and waits for the command with which Spark's worker starts an executor."""
