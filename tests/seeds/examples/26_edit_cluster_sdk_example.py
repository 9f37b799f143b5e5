from databricks.sdk import WorkspaceClient

client = WorkspaceClient()

# Edit cluster
client.clusters.edit(
    cluster_id="1234-567890-abc123",
    cluster_name="updated-cluster",
    spark_version="13.3.x-scala2.12",
    node_type_id="i3.2xlarge",
    num_workers=4,
    autotermination_minutes=60
)

print("Cluster updated!")
