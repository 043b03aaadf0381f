"""Convolutions on blocked and plain layouts, Winograd, chains of convolutions."""
