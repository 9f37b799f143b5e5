client = WorkspaceClient()

# List node types
for node_type in client.clusters.list_node_types():
    print(f"Node Type: {node_type.node_type_id}")
    print(f"  Memory: {node_type.memory_mb} MB")
    print(f"  Cores: {node_type.num_cores}")
    print(f"  Category: {node_type.category}")
    print()
