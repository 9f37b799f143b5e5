"""Clusters, nodes, events, node types, runtimes, errors: frozen structs, enums, transition tables. Imports nothing of ours."""
