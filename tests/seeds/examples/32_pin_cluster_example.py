client = WorkspaceClient()

# Pin cluster
client.clusters.pin(cluster_id="1234-567890-abc123")

print("Cluster pinned!")
