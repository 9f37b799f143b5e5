import requests

response = requests.get(
    f"{DATABRICKS_HOST}/api/2.0/clusters/list",
    headers=headers
)

clusters = response.json().get("clusters", [])

for cluster in clusters:
    print(f"ID: {cluster['cluster_id']}")
    print(f"Name: {cluster['cluster_name']}")
    print(f"State: {cluster['state']}")
    print("-" * 40)
