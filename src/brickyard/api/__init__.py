"""The APIs of the server: `edge` handles HTTP, the other packages declare the operations."""
