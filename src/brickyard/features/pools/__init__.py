"""The Instance Pools API."""
