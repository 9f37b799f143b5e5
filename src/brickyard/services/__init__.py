"""What the API calls: one module per resource; authorisation lives here."""
