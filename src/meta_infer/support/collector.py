"""Python's cyclic garbage collector, kept out of the way while many small objects are made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def rare_collections() -> Iterator[None]:
    """Collect a hundred times less often inside the block: IR is immutable and holds no cycles worth finding.

    Building a network makes millions of small objects; with the usual threshold a third of the time goes into
    looking for cycles among them.
    """
    before = gc.get_threshold()
    gc.set_threshold(max(before[0], 70_000), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
