"""Who may do what: every call checks here, in the same transaction as its work."""

from brickyard.services.access.authorizer import Acl, Authorizer

__all__ = ["Acl", "Authorizer"]
