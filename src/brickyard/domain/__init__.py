"""Clusters, nodes, events, node types, runtimes and errors: frozen structs, enums and transition tables. Imports no other part of
Brickyard."""
