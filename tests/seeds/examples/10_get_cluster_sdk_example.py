from databricks.sdk import WorkspaceClient

client = WorkspaceClient()

cluster = client.clusters.get(cluster_id="1234-567890-abc123")

print(f"Cluster Name: {cluster.cluster_name}")
print(f"State: {cluster.state}")
print(f"Spark Version: {cluster.spark_version}")
print(f"Node Type: {cluster.node_type_id}")
