"""Who may do what: every call checks here, in the same transaction as its work."""

from brickyard.access.authorizer import Authorizer
from brickyard.plan.access import Acl

__all__ = ["Acl", "Authorizer"]
