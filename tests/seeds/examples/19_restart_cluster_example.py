import requests

response = requests.post(
    f"{DATABRICKS_HOST}/api/2.0/clusters/restart",
    headers=headers,
    json={"cluster_id": "1234-567890-abc123"}
)

if response.status_code == 200:
    print("Cluster restarting...")
