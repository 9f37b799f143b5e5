from databricks.sdk import WorkspaceClient

client = WorkspaceClient()

# List all clusters
for cluster in client.clusters.list():
    print(f"Cluster: {cluster.cluster_name}")
    print(f"  ID: {cluster.cluster_id}")
    print(f"  State: {cluster.state}")
    print(f"  Workers: {cluster.num_workers or 'Single Node'}")
    print()
