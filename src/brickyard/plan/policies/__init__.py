"""Cluster policies: their language, and what a policy makes of a specification. Pure.

* `attributes`: the paths that rules may name, and how they find their way in a specification.
* `language`: definitions, parsed into rules, with everything that is wrong with them.
* `limits`: what one rule says of one value. `logconf`: log delivery as policies see it.
* `evaluation`: the values that a policy sets, the rules that are violated, and the nearest specification without violations.
* `families`: the policies that every workspace begins with.

Source: Databricks' compute policy reference (docs.databricks.com, admin/clusters/policy-definition).
"""
