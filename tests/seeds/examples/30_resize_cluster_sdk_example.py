client = WorkspaceClient()

# Resize to fixed number of workers
client.clusters.resize(
    cluster_id="1234-567890-abc123",
    num_workers=8
)

# Or enable autoscaling
client.clusters.resize(
    cluster_id="1234-567890-abc123",
    autoscale=compute.AutoScale(
        min_workers=4,
        max_workers=16
    )
)

print("Cluster resized!")
