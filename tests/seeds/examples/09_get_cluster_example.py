import requests

response = requests.get(
    f"{DATABRICKS_HOST}/api/2.0/clusters/get",
    headers=headers,
    params={"cluster_id": "1234-567890-abc123"}
)

cluster = response.json()
print(f"Name: {cluster['cluster_name']}")
print(f"State: {cluster['state']}")
print(f"Workers: {cluster.get('num_workers', 'Single Node')}")
