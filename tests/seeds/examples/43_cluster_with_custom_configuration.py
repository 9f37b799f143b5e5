def create_production_cluster():
    """Create production-ready cluster"""
    client = WorkspaceClient()
    
    cluster = client.clusters.create(
        cluster_name="production-cluster",
        spark_version="13.3.x-scala2.12",
        node_type_id="i3.2xlarge",
        driver_node_type_id="i3.4xlarge",  # Larger driver
        autoscale=compute.AutoScale(
            min_workers=4,
            max_workers=16
        ),
        autotermination_minutes=60,
        enable_elastic_disk=True,
        
        # Spark configuration
        spark_conf={
            "spark.speculation": "true",
            "spark.sql.adaptive.enabled": "true",
            "spark.databricks.delta.preview.enabled": "true"
        },
        
        # Environment variables
        spark_env_vars={
            "ENVIRONMENT": "production",
            "LOG_LEVEL": "INFO"
        },
        
        # AWS attributes
        aws_attributes=compute.AwsAttributes(
            zone_id="us-west-2a",
            availability=compute.AwsAvailability.SPOT_WITH_FALLBACK,
            spot_bid_price_percent=50
        ),
        
        # Custom tags for cost tracking
        custom_tags={
            "Project": "data-pipeline",
            "Environment": "production",
            "CostCenter": "engineering",
            "Owner": "data-team"
        },
        
        # Init script
        init_scripts=[
            compute.InitScriptInfo(
                dbfs=compute.DbfsStorageInfo(
                    destination="dbfs:/init-scripts/setup.sh"
                )
            )
        ]
    )
    
    print(f"Production cluster created: {cluster.cluster_id}")
    return cluster

# Create cluster
prod_cluster = create_production_cluster()
