"""The server: how it is assembled (`assembly`, `services`), run (`lifecycle`), measured (`metrics`) and a process (`process`)."""
