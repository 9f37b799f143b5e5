"""Who may do what: every call checks here, in the same transaction as its work."""

from brickyard.plan.access import Acl
from brickyard.services.access.authorizer import Authorizer

__all__ = ["Acl", "Authorizer"]
