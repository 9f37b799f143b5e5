"""The services behind the API: one module per resource; authorisation happens here."""
