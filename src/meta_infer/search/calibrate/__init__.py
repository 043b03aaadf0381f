"""Microbenchmarks of a machine, and the cost models that are fitted to what was timed."""
