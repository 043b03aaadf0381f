"""Kernels that move elements and compute nothing."""
