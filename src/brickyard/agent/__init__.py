"""The node agent: one process on every instance; imports domain only."""
