import requests

resize_config = {
    "cluster_id": "1234-567890-abc123",
    "num_workers": 8
}

response = requests.post(
    f"{DATABRICKS_HOST}/api/2.0/clusters/resize",
    headers=headers,
    json=resize_config
)

if response.status_code == 200:
    print("Cluster resizing...")
