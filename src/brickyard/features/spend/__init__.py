"""Spend: sums of what nodes cost, and prices."""
