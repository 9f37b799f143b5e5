"""Programs that the installation of a runtime runs: class-data archives, and our classes for Spark."""
