client = WorkspaceClient()

# Restart cluster
client.clusters.restart(cluster_id="1234-567890-abc123")

# Wait for restart to complete
client.clusters.wait_get_cluster_running(cluster_id="1234-567890-abc123")

print("Cluster restarted successfully!")
