"""Who may do what: every call asks here, in the transaction that does it."""

from brickyard.services.access.authorizer import Acl, Authorizer

__all__ = ["Acl", "Authorizer"]
