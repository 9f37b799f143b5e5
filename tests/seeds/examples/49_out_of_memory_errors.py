# Increase driver memory
driver_node_type_id="i3.4xlarge"

# Add more workers
num_workers=8

# Or enable autoscaling
autoscale=compute.AutoScale(min_workers=4, max_workers=16)
