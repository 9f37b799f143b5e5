def batch_cluster_operations():
    """Perform batch operations on multiple clusters"""
    client = WorkspaceClient()
    
    # Get all running clusters
    running_clusters = [
        c for c in client.clusters.list()
        if c.state == "RUNNING"
    ]
    
    print(f"Found {len(running_clusters)} running clusters")
    
    # Terminate idle clusters (example logic)
    for cluster in running_clusters:
        if should_terminate(cluster):
            print(f"Terminating cluster: {cluster.cluster_name}")
            client.clusters.delete(cluster_id=cluster.cluster_id)
    
    # List all terminated clusters
    terminated_clusters = [
        c for c in client.clusters.list()
        if c.state == "TERMINATED"
    ]
    
    print(f"Found {len(terminated_clusters)} terminated clusters")
    
    # Clean up old terminated clusters
    for cluster in terminated_clusters:
        # Add logic to permanently delete old clusters
        pass

def should_terminate(cluster):
    """Determine if cluster should be terminated"""
    # Example: Terminate if no activity in last 2 hours
    # Add your logic here
    return False

# Run batch operations
batch_cluster_operations()
