"""Convolutions and products of 8-bit integers."""
