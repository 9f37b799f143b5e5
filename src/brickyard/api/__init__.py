"""The wire: operation registry, wire structs, one module per API group, error mapping, OpenAPI."""
