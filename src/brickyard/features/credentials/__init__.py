"""What people and programs log in with: tokens, OAuth, browser sessions, links, an identity provider."""
