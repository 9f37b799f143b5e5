def monitor_cluster_health(cluster_id, duration_seconds=300):
    """Monitor cluster health over time"""
    client = WorkspaceClient()
    start_time = time.time()
    
    print(f"Monitoring cluster {cluster_id} for {duration_seconds} seconds...")
    
    while time.time() - start_time < duration_seconds:
        try:
            cluster = client.clusters.get(cluster_id=cluster_id)
            
            print(f"\nTime: {time.strftime('%Y-%m-%d %H:%M:%S')}")
            print(f"State: {cluster.state}")
            print(f"Workers: {cluster.num_workers or 'Single Node'}")
            
            if cluster.state == "RUNNING":
                # Cluster is healthy
                print("✓ Cluster is healthy")
            elif cluster.state == "ERROR":
                print("✗ Cluster in ERROR state!")
                print(f"Message: {cluster.state_message}")
                break
            else:
                print(f"⚠ Cluster is {cluster.state}")
            
            time.sleep(30)  # Check every 30 seconds
            
        except Exception as e:
            print(f"Error checking cluster: {e}")
            break
    
    print("\nMonitoring complete!")

# Monitor cluster
monitor_cluster_health("1234-567890-abc123", duration_seconds=300)
