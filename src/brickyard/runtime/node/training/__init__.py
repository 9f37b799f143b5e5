"""Programs that the installation of a runtime runs: they make class-data archives, and compile our classes for Spark."""
