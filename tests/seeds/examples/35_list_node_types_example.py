import requests

response = requests.get(
    f"{DATABRICKS_HOST}/api/2.0/clusters/list-node-types",
    headers=headers
)

node_types = response.json().get("node_types", [])

for node_type in node_types:
    print(f"ID: {node_type['node_type_id']}")
    print(f"Memory: {node_type['memory_mb']} MB")
    print(f"Cores: {node_type['num_cores']}")
    print("-" * 40)
