import requests
import time

# Get events from last 24 hours
end_time = int(time.time() * 1000)
start_time = end_time - (24 * 60 * 60 * 1000)

request_body = {
    "cluster_id": "1234-567890-abc123",
    "start_time": start_time,
    "end_time": end_time,
    "limit": 50
}

response = requests.post(
    f"{DATABRICKS_HOST}/api/2.0/clusters/events",
    headers=headers,
    json=request_body
)

events = response.json().get("events", [])

for event in events:
    print(f"Type: {event['type']}")
    print(f"Time: {event['timestamp']}")
    print(f"Details: {event.get('details', {})}")
    print("-" * 40)
