import requests

cluster_config = {
    "cluster_id": "1234-567890-abc123",
    "cluster_name": "updated-cluster",
    "spark_version": "13.3.x-scala2.12",
    "node_type_id": "i3.2xlarge",
    "num_workers": 4,
    "autotermination_minutes": 60
}

response = requests.post(
    f"{DATABRICKS_HOST}/api/2.0/clusters/edit",
    headers=headers,
    json=cluster_config
)

if response.status_code == 200:
    print("Cluster configuration updated!")
