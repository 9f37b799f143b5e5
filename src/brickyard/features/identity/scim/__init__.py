"""SCIM (RFC 7643 and 7644) as pure functions: filters, patches, and resources to and from rows."""
