"""Reductions, softmax, normalisation, sorting and counting."""
