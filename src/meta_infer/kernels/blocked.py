"""Layouts of a group's operands around a kernel whose output is blocked by channels."""

from __future__ import annotations

from collections.abc import Iterable

from meta_infer.ir.graph import Value
from meta_infer.ir.group import PLAIN, Group, Layout, blocked
from meta_infer.ir.shapes import Dim


def operand_layout(value: Value, rank: int, block: int) -> Layout:
    """How a kernel that works on [N, C, ...] of `rank` dims, `block` channels at a time, wants an operand.

    One that varies over channels and over a later axis must be blocked alike; per-channel constants such as
    [C, 1, 1], rows shared by all channels and scalars stay plain.
    """
    axis = 1 - (rank - value.rank)
    if axis < 0 or value.shape[axis] == 1 or all(d == 1 for d in value.shape[axis + 1:]):
        return PLAIN
    return blocked(block, axis)


def operand_layouts(group: Group, names: Iterable[str], rank: int, block: int) -> dict[str, Layout]:
    return {name: operand_layout(group.values[name], rank, block) for name in names}


def blockable(group: Group) -> bool:
    """True when every output is [N, C, ...] with C known at build: only then can it be blocked by channels."""
    return all(group.values[n].rank >= 3 and isinstance(group.values[n].shape[1], int) for n in group.outputs)


def blocks(channels: Dim, block: int) -> int:
    """Number of channel blocks. Raises TypeError for a dynamic channel count, which is never blocked."""
    if not isinstance(channels, int):
        raise TypeError(f"{channels} channels cannot be blocked")
    return -(-channels // block)
