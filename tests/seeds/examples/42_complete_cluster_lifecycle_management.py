from databricks.sdk import WorkspaceClient
from databricks.sdk.service import compute
import time

def manage_cluster_lifecycle():
    """Complete cluster lifecycle example"""
    client = WorkspaceClient()
    
    # 1. Create cluster
    print("Creating cluster...")
    cluster = client.clusters.create(
        cluster_name="lifecycle-cluster",
        spark_version="13.3.x-scala2.12",
        node_type_id="i3.xlarge",
        num_workers=2,
        autotermination_minutes=30,
        custom_tags={
            "Project": "demo",
            "Environment": "test"
        }
    )
    
    cluster_id = cluster.cluster_id
    print(f"Cluster created: {cluster_id}")
    
    # 2. Wait for cluster to be ready
    print("Waiting for cluster to start...")
    client.clusters.wait_get_cluster_running(cluster_id=cluster_id)
    print("Cluster is running!")
    
    # 3. Get cluster info
    cluster_info = client.clusters.get(cluster_id=cluster_id)
    print(f"Cluster name: {cluster_info.cluster_name}")
    print(f"Spark version: {cluster_info.spark_version}")
    
    # 4. Resize cluster
    print("Resizing cluster to 4 workers...")
    client.clusters.resize(cluster_id=cluster_id, num_workers=4)
    time.sleep(30)  # Wait for resize
    
    # 5. Pin cluster
    print("Pinning cluster...")
    client.clusters.pin(cluster_id=cluster_id)
    
    # 6. Get cluster events
    end_time = int(time.time() * 1000)
    start_time = end_time - (60 * 60 * 1000)  # Last hour
    
    events = client.clusters.events(
        cluster_id=cluster_id,
        start_time=start_time,
        end_time=end_time
    )
    
    print(f"Recent events: {len(events.events or [])}")
    
    # 7. Terminate cluster
    print("Terminating cluster...")
    client.clusters.delete(cluster_id=cluster_id)
    
    # Wait for termination
    client.clusters.wait_get_cluster_terminated(cluster_id=cluster_id)
    print("Cluster terminated!")

# Run example
manage_cluster_lifecycle()
