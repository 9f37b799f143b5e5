"""The APIs of the server: `edge` is how HTTP is spoken, the others are what can be asked."""
