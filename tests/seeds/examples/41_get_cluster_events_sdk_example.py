from databricks.sdk import WorkspaceClient
from databricks.sdk.service.compute import ClusterEventType
import time

client = WorkspaceClient()

# Get recent events
end_time = int(time.time() * 1000)
start_time = end_time - (24 * 60 * 60 * 1000)

events = client.clusters.events(
    cluster_id="1234-567890-abc123",
    start_time=start_time,
    end_time=end_time,
    event_types=[
        ClusterEventType.STARTING,
        ClusterEventType.RUNNING,
        ClusterEventType.TERMINATING
    ]
)

for event in events.events:
    print(f"Event: {event.type} at {event.timestamp}")
