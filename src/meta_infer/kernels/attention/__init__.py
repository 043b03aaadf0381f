"""Attention with online softmax, linear attention."""
