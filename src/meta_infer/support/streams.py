"""Reading what another process prints, with patience."""

from __future__ import annotations

import os
import selectors
from collections.abc import Iterator
from typing import IO


def timed_lines(stream: IO[bytes], patience: float) -> Iterator[str]:
    """Lines of a pipe until its end. Raises TimeoutError when nothing comes for `patience` seconds."""
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while True:
            if not selector.select(patience):
                raise TimeoutError
            data = os.read(stream.fileno(), 1 << 16)
            if not data:
                return
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                yield line.decode(errors="replace")
