"""How much memory this process has held."""

from __future__ import annotations

import resource


def peak_rss_bytes() -> int:
    """The most memory this process has ever held, as the system counts it (Linux: in KiB)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
