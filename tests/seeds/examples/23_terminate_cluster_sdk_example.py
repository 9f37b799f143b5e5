client = WorkspaceClient()

# Terminate cluster
client.clusters.delete(cluster_id="1234-567890-abc123")

# Wait for termination
client.clusters.wait_get_cluster_terminated(cluster_id="1234-567890-abc123")

print("Cluster terminated successfully!")
