"""The server: how it is assembled (`assembly`), run (`lifecycle`), measured (`metrics`) and run as a process (`process`)."""
