"""Schedules that start and stop clusters."""
