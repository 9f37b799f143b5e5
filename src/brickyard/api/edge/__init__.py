"""HTTP, as every API of the server has it: connections, requests, authentication, answers and errors."""
