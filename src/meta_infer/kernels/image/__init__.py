"""Pooling, resizing and sampling of planes."""
