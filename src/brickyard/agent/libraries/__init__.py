"""Installs what a cluster's programs import: the walled-in installer, and each kind of library."""
