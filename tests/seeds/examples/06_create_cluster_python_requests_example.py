import requests
import json

DATABRICKS_HOST = "https://<workspace>.cloud.databricks.com"
DATABRICKS_TOKEN = "dapi..."

headers = {
    "Authorization": f"Bearer {DATABRICKS_TOKEN}",
    "Content-Type": "application/json"
}

cluster_config = {
    "cluster_name": "api-cluster",
    "spark_version": "13.3.x-scala2.12",
    "node_type_id": "i3.xlarge",
    "num_workers": 2,
    "autotermination_minutes": 30
}

response = requests.post(
    f"{DATABRICKS_HOST}/api/2.0/clusters/create",
    headers=headers,
    json=cluster_config
)

if response.status_code == 200:
    result = response.json()
    print(f"Cluster created: {result['cluster_id']}")
else:
    print(f"Error: {response.status_code} - {response.text}")
