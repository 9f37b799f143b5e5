"""The reconcile loops: claim a key, observe, plan, apply."""
