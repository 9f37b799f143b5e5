client = WorkspaceClient()

# Unpin cluster
client.clusters.unpin(cluster_id="1234-567890-abc123")

print("Cluster unpinned!")
