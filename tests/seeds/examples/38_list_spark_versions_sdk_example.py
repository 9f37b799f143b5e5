client = WorkspaceClient()

# List Spark versions
for version in client.clusters.spark_versions():
    print(f"Version: {version.key}")
    print(f"Name: {version.name}")
