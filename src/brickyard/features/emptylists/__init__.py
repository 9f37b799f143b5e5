"""Lists of what a workspace never has here."""
