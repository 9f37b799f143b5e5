from databricks.sdk import WorkspaceClient
from databricks.sdk.service import compute

client = WorkspaceClient()

# Create single node cluster
cluster = client.clusters.create(
    cluster_name="my-cluster",
    spark_version="13.3.x-scala2.12",
    node_type_id="i3.xlarge",
    num_workers=0,
    autotermination_minutes=30,
    spark_conf={
        "spark.databricks.cluster.profile": "singleNode",
        "spark.master": "local[*]"
    },
    custom_tags={
        "ResourceClass": "SingleNode"
    }
)

print(f"Cluster ID: {cluster.cluster_id}")
print(f"State: {cluster.state}")
