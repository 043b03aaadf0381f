"""Timing kernels: candidates, the processes they run in, and what is kept of it."""
