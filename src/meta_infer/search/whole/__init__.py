"""Whole plans: built, timed in turns and in place, and chosen between."""
