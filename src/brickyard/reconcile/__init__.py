"""The loops: claim a key, observe, plan, apply."""
