"""Pure decision functions: (desired, observed, now) -> actions. No I/O, no clock, no randomness."""
