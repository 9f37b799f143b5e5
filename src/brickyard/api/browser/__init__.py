"""What people see in a browser: log-in and consent."""
