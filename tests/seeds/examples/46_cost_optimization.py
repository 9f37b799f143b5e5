# Good: Autoscaling with reasonable limits
autoscale=compute.AutoScale(
    min_workers=2,
    max_workers=8
)

# Good: Short autotermination for dev clusters
autotermination_minutes=30

# Good: Use spot instances for fault-tolerant workloads
aws_attributes=compute.AwsAttributes(
    availability=compute.AwsAvailability.SPOT_WITH_FALLBACK,
    spot_bid_price_percent=50
)
