"""HTTP, common to all APIs of the server: connections, requests, authentication, answers and errors."""
