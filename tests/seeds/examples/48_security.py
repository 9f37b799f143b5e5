# Use cluster policies to enforce standards
policy_id="ABC123DEF456"

# Use instance pools for network isolation
instance_pool_id="pool-abc-123"

# Set appropriate tags for governance
custom_tags={
    "DataClassification": "confidential",
    "ComplianceScope": "GDPR"
}
