"""Notification destinations, and the loop that sends what runs have to tell to them."""
