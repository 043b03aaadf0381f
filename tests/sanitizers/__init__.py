"""Whole packages under the sanitizers of gcc, and in the arena modes. The long form is tools/sanitize.py."""
