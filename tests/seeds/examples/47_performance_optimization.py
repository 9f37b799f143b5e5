# Enable adaptive query execution
spark_conf={
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.enabled": "true"
}

# Use larger driver for memory-intensive operations
driver_node_type_id="i3.4xlarge"  # Larger than workers

# Enable elastic disk for storage-intensive workloads
enable_elastic_disk=True
