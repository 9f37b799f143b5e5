"""Log-in with an external OpenID Connect provider."""
