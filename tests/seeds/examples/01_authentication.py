headers = {
    "Authorization": f"Bearer {token}",
    "Content-Type": "application/json"
}
