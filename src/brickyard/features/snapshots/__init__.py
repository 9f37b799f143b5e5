"""Snapshots of clusters' workspace directories."""
