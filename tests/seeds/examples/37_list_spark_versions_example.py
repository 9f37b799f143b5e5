import requests

response = requests.get(
    f"{DATABRICKS_HOST}/api/2.0/clusters/spark-versions",
    headers=headers
)

versions = response.json().get("versions", [])

for version in versions:
    print(f"Key: {version['key']}")
    print(f"Name: {version['name']}")
    print("-" * 40)
