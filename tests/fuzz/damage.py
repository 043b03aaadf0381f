"""Ways to damage bytes, shared by all fuzzers."""

from __future__ import annotations

import random

BYTES = (0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF)
WORDS = (0, 1, 2, 63, 64, (1 << 31) - 1, 1 << 31, (1 << 32) - 2, (1 << 32) - 1, 1 << 56, (1 << 63) - 1, 1 << 63,
         (1 << 64) - 1)


def damage(rng: random.Random, data: bytes, most: int = 4) -> bytes:
    """`data` with up to `most` changes: bytes, aligned words, parts moved, doubled, removed, and the end cut off."""
    raw = bytearray(data)
    for _ in range(rng.randint(1, most)):
        if not raw:
            raw += bytes(rng.randrange(1, 20))
        at = rng.randrange(len(raw))
        match rng.randrange(10):
            case 0 | 1 | 2:
                raw[at] = rng.choice(BYTES)
            case 3:
                raw[at] ^= 1 << rng.randrange(8)
            case 4 | 5:
                size = rng.choice((4, 8))
                at -= at % size
                raw[at:at + size] = (rng.choice(WORDS) & ((1 << 8 * size) - 1)).to_bytes(size, "little")
            case 6:
                length = rng.randint(1, 64)
                other = rng.randrange(len(raw))
                raw[at:at + length] = raw[other:other + length]
            case 7:
                del raw[at:at + rng.randint(1, 32)]
            case 8:
                raw[at:at] = bytes(rng.choice(BYTES) for _ in range(rng.randint(1, 32)))
            case _ if rng.random() < 0.3:
                del raw[at:]
            case _:
                raw[at] = rng.randrange(256)
    return bytes(raw)
