"""The server: how it is assembled (`assembly`, with `services`), run (`lifecycle`), measured (`metrics`) and run as a process (`process`)."""
