"""Spark Connect in the driver's JVM."""
