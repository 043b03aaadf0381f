"""The least time a group can take on a machine, whatever the kernel: a roofline with a roof for every level of memory.

    floor = min over algorithms of max(operations / peak, max over levels of bytes that cross the level / its rate)

Williams, Waterman, Patterson: Roofline (CACM 52, 2009); Ilic, Pratas, Sousa: Cache-aware roofline model (IEEE CAL
2014). Every byte crosses the nearest level. A farther one is crossed by what cannot have stayed in the level before it
since it was touched last: of the activations of a group all but as much as that level holds, of weights the same share
as of all that is touched between two of their uses, so all of them unless a network's weights fit into a cache. That is
what the best possible replacement keeps; a cache does worse. Peak and rates are those that probes reached on this
machine just now, so nothing here is a figure of a data sheet.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from meta_infer.cost.algorithms import algorithms, size_of
from meta_infer.ir.graph import Value
from meta_infer.ir.group import Group
from meta_infer.ops.attrs import ints_of

# Ops that read of their first operand no more than they write.
_SELECTING = frozenset({"Gather", "GatherND", "GatherElements", "Slice"})


@dataclass(frozen=True)
class MemoryRate:
    """A level of memory: what it holds for all threads together in bytes, and bytes per second from there."""

    name: str
    bytes: float
    rate: float


@dataclass(frozen=True)
class MachineRates:
    """Float32 operations per second at the peak, and levels of memory, nearest first; the last one holds everything."""

    peak: float
    levels: tuple[MemoryRate, ...]


@dataclass(frozen=True)
class Traffic:
    """Bytes of a group: constants, and activations that enter or leave it, each counted once."""

    weights: float
    activations: float


@dataclass(frozen=True)
class Floor:
    """The least seconds, by which algorithm, and what bounds it: 'peak' or the name of a level.

    `work` is what it does of that: operations at the peak, or bytes that cross the level.
    """

    seconds: float
    algorithm: str
    bound: str
    work: float


def traffic(group: Group, sizes: Mapping[str, int]) -> Traffic:
    """Bytes that a group has to read and write at these sizes, whatever computes it.

    A selecting op reads as much as it writes at most, and a strided convolution skips what lies between its windows.
    """
    written = sum(_bytes(group.values[name], sizes) for name in group.outputs)
    weights = activations = 0.0
    for name in group.inputs:
        count = float(_bytes(group.values[name], sizes))
        if group.anchor.inputs[:1] == (name,):
            count = min(count, written) if group.anchor.op in _SELECTING else count * _share_read(group)
        if name in group.constants:
            weights += count
        else:
            activations += count
    return Traffic(weights, activations + written)


def _bytes(value: Value, sizes: Mapping[str, int]) -> int:
    return prod(size_of(dim, sizes) for dim in value.shape) * value.dtype.bytes


def _share_read(group: Group) -> float:
    """Share of its input that a convolution reads: less than all where the stride is larger than the window."""
    if group.anchor.op != "Conv":
        return 1.0
    kernel, strides = (ints_of(group.anchor.attrs, name) for name in ("kernel_shape", "strides"))
    return prod(min(1.0, k / s) for k, s in zip(kernel, strides, strict=True))


def _share_beyond(levels: Sequence[MemoryRate], touched: float) -> list[float]:
    """For each level the share of `touched` bytes that has to come through it: what the level before cannot hold."""
    held = [0.0, *(level.bytes for level in levels[:-1])]
    return [1.0 - min(1.0, near / touched) if touched else 0.0 for near in held]


def bounds(group: Group, sizes: Mapping[str, int], rates: MachineRates, between: float = math.inf) -> tuple[Floor, ...]:
    """The least time of every algorithm, the plain one first.

    `between` is the bytes that are touched from one use of the weights to the next: all weights of a network that
    runs again and again.
    """
    moved = traffic(group, sizes)
    shares = zip(rates.levels, _share_beyond(rates.levels, moved.activations), _share_beyond(rates.levels, between),
                 strict=True)
    crossing = [(level, part * moved.activations, weights_part) for level, part, weights_part in shares]
    found = []
    for way in algorithms(group, sizes, moved.weights):
        roofs = [(way.flops / rates.peak, "peak", way.flops)]
        for level, count, weights_part in crossing:
            count += way.weight_bytes * weights_part
            roofs.append((count / level.rate, level.name, count))
        seconds, bound, work = max(roofs)
        found.append(Floor(seconds, way.name, bound, work))
    return tuple(found)


def floor(group: Group, sizes: Mapping[str, int], rates: MachineRates, between: float = math.inf) -> Floor:
    """The least time that any algorithm can take for a group at these sizes of its symbols; see `bounds`."""
    return min(bounds(group, sizes, rates, between), key=lambda found: found.seconds)


def everything(name: str, rate: float) -> MemoryRate:
    """The level behind all others."""
    return MemoryRate(name, math.inf, rate)
