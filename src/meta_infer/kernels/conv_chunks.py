"""How a convolution is cut into chunks: one image, a group of output tiles, a group of rows (or columns) each."""

from __future__ import annotations

from dataclasses import dataclass

from meta_infer.hardware.profile import Profile

LINE_BYTES = 64
"""Of a cache line, on every chip of the catalog."""

# A chunk is work for about 100 us on one core; below this many chunks threads would stand idle.
_CHUNK_FLOPS = 6e6
# One that streams its weights from beyond L2 may be longer: the more lines share them, the fewer times they come.
_STREAMING_FLOPS = 12e6
_FEWEST_CHUNKS = 8
# Cycles for a byte of weights from beyond the core's caches, and from L2's neighbours when it is read again. They come
# on top of the multiply-adds: on a Sapphire Rapids, 0.5 to 9 MB cost direct convolutions 0.19 to 0.27 for each byte.
FAR_CYCLES, NEAR_CYCLES = 0.19, 0.06
# What to assume where the profile states no cache: small ones, which cost a little everywhere and much nowhere.
_SMALL_L1 = 32 * 1024
_SMALL_L2 = 128 * 1024


@dataclass(frozen=True)
class Work:
    """What there is to cut, per image. `lines` are rows, or flattened positions in steps of `line_step`."""

    images: int                   # 1 when not known at build
    tiles: int                    # output tiles
    lines: int                    # an upper bound where dynamic
    line_step: int                # lines of a chunk are a multiple of this
    line_bytes: int               # input read for one line
    halo_bytes: int               # input that every group of lines reads besides its own
    weight_bytes: int             # all weights
    flops: float                  # of one image
    in_passes: bool = False       # only a few input blocks of a chunk's lines are in use at a time


@dataclass(frozen=True)
class Cut:
    """Output tiles and lines of a chunk."""

    tiles: int
    lines: int


def l1_bytes(profile: Profile) -> int:
    return profile.l1d_bytes or _SMALL_L1


def l2_bytes(profile: Profile) -> int:
    return profile.l2_bytes or _SMALL_L2


def weight_cycles(weight_bytes: int, reads: float, images: int, l2: int) -> float:
    """Cycles in which the weights arrive, for one image of `images`: other layers have taken their place in the caches,
    and those that do not stay in L2 arrive again for each of an image's `reads`."""
    again = NEAR_CYCLES if weight_bytes > l2 // 2 else 0.0
    return weight_bytes * (FAR_CYCLES + (reads * images - 1) * again) / images


def cut(work: Work, profile: Profile) -> Cut:
    """Lines of a chunk fit in a third of L2 together with their halo; then the larger side is split further.

    Weights that do not stay in L2 are read once per group of lines, so they are split by tiles first: each chunk
    then streams its own part of the weights once over all its lines, which may take all of L2 where they are read in
    passes.
    """
    l2 = l2_bytes(profile)
    step = work.line_step
    groups = max(1, -(-work.lines // step))                              # of `line_step` lines
    streams = work.weight_bytes > l2 // 2
    room = l2 if streams and work.in_passes else l2 // 3
    fitting = max(1, (room - work.halo_bytes) // max(1, work.line_bytes * step))
    lines, tiles = min(groups, fitting), work.tiles

    def chunks() -> int:
        return work.images * -(-work.tiles // tiles) * -(-groups // lines)

    most_flops = _STREAMING_FLOPS if streams and work.in_passes else _CHUNK_FLOPS
    while chunks() < _FEWEST_CHUNKS or work.flops * work.images / chunks() > most_flops:
        if tiles > 1 and (streams or lines == 1 or lines * work.line_bytes * step < work.halo_bytes):
            tiles = -(-tiles // 2)
        elif lines > 1:
            lines = -(-lines // 2)
        else:
            break
    lines = -(-groups // -(-groups // lines))                            # as even as possible
    return Cut(tiles, lines * step)
