"""Pure decisions: (desired, observed, now) -> actions. No I/O, no clock, no randomness."""
