from databricks.sdk import WorkspaceClient

client = WorkspaceClient()

# Start cluster
client.clusters.start(cluster_id="1234-567890-abc123")

# Wait for cluster to be ready
client.clusters.wait_get_cluster_running(cluster_id="1234-567890-abc123")

print("Cluster is running!")
