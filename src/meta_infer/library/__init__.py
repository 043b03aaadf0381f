"""The experience library: what was measured, and which choice won, kept in one SQLite file from build to build."""
