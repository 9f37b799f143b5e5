"""Libraries of running clusters: install, uninstall, status."""
