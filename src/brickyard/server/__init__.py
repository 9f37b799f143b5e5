"""The server: put together (`assembly`), run (`lifecycle`), measured (`metrics`), as a process (`process`)."""
