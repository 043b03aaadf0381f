"""What a group costs: the least, read off its types, and what its lowered kernels do, as the cost model counts it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from meta_infer.cost.loop_counts import LoopCounts, count_loops
from meta_infer.cost.reuse import WAY, footprint, local_bytes, touched, traffic
from meta_infer.hardware.profile import Profile
from meta_infer.ir.graph import Node
from meta_infer.ir.group import Group
from meta_infer.ir.loop import LoopFunc
from meta_infer.ir.shapes import Dim, product
from meta_infer.ops.opdef import TensorType
from meta_infer.ops.registry import op_named
from meta_infer.support.dtypes import FLOAT32


def node_flops(node: Node, group: Group) -> Dim:
    """Floating-point operations of one node; a multiply-add counts as two. 0 for an op that declares none."""
    flops = op_named(node.op).flops
    if flops is None:
        return 0
    types = {name: TensorType(value.dtype, value.shape) for name, value in group.values.items()}
    inputs = [types[name] if name else None for name in node.inputs]
    return flops(node.attrs, inputs, [types[name] for name in node.outputs if name])


def group_flops(group: Group) -> Dim:
    """Floating-point operations of all nodes of a group."""
    total: Dim = 0
    for node in group.nodes:
        total = total + node_flops(node, group)
    return total


def group_bytes(group: Group) -> Dim:
    """Bytes of all tensors that enter or leave the group, each counted once."""
    total: Dim = 0
    for name in (*group.inputs, *group.outputs):
        value = group.values[name]
        total = total + product(value.shape) * value.dtype.bytes
    return total


# --- of lowered kernels ----------------------------------------------------------------------------------------

WORK: Mapping[str, float] = {
    "ports": 0.5, "arithmetic": 0.2, "function": 4.0, "shuffle": 0.2, "load": 0.7, "store": 2.0, "partial": 3.0,
    "divide": 11.0, "scalar": 0.0, "index": 0.0, "loop": 0.3, "entry": 1.5, "prefetch": 0.5, "chain": 0.1,
}
"""Kinds of work, and what a unit adds on a core that nothing was measured on, in register-wide multiply-adds at its
peak: about what all classes of kernels together took on the one core (AVX2, Zen 3) where it was fitted.

ports       the longest queue of a core that starts as many loads as multiply-adds at a time and half as many stores
arithmetic  register-wide operations other than those below
function    instructions of functions of MATH, by the length of their polynomials
shuffle     lanes that change places, reductions to one lane among them
load        register-wide loads, those that fill all lanes with one number among them
store       register-wide stores
partial     register-wide loads and stores of some lanes only
divide      register-wide divisions and square roots
scalar      operations, loads and stores of single elements
index       arithmetic on indices, most of which a compiler moves out of loops or into addresses
loop        iterations and branches
entry       loops begun: the end of one is often mispredicted
prefetch    prefetches
chain       operations that wait for the one before: accumulators too few to keep a core busy
"""

PENALTIES = ("chunks",)
"""chunks: pieces of the parallel loop, each of which is claimed."""

COUNTED = 1
"""Version of what is counted, to be raised when the same code comes to other numbers: a fit takes no other."""
_VERSION = "version"
_LENGTHS = {"exp": 20, "log": 35, "tanh": 26, "sigmoid": 28, "erf": 40, "sin": 100, "cos": 100, "pow": 150}
_REDUCE = 6
_DOT = 3
_QUEUES = 5 / 2
"""Instructions that a core starts for each multiply-add it can start."""
_HELD = 0.8
"""Share of a cache that can be counted on: lines that share a set displace each other before it is full."""


@dataclass(frozen=True)
class Call:
    """One launch: `args` name a buffer for each param, `dims` are values."""

    func: LoopFunc
    args: tuple[str, ...]
    dims: tuple[int, ...] = ()


@dataclass(frozen=True)
class Features:
    """What one run of a lowered group does, on one core.

    `work`: WORK -> register-wide operations. `bytes`: name of a memory -> bytes that come from there or go there,
    into the cache before it. `penalty`: PENALTIES -> how often.
    """

    work: Mapping[str, float]
    bytes: Mapping[str, float]
    launches: float = 1.0
    penalty: Mapping[str, float] = field(default_factory=dict)

    def numbers(self) -> dict[str, float]:
        """All of it under one name each: 'work.load', 'bytes.l2', 'launches'."""
        return {"launches": self.launches} | {f"{part}.{name}": value for part in ("work", "bytes", "penalty")
                                              for name, value in getattr(self, part).items()}

    def recorded(self) -> dict[str, float]:
        """As `numbers`, with the version of what is counted, for the library."""
        return self.numbers() | {_VERSION: COUNTED}

    def __add__(self, other: Features) -> Features:
        """Features of both, one run after the other."""
        mine, theirs = self.numbers(), other.numbers()
        return Features.read({name: mine.get(name, 0.0) + theirs.get(name, 0.0) for name in (*mine, *theirs)})

    @classmethod
    def read(cls, numbers: Mapping[str, float]) -> Features:
        """The features that `numbers()` or `recorded()` wrote; names that are none are left out."""
        parts: dict[str, dict[str, float]] = {"work": {}, "bytes": {}, "penalty": {}}
        for key, value in numbers.items():
            part, _, name = key.partition(".")
            if part in parts and name:
                parts[part][name] = value
        return cls(parts["work"], parts["bytes"], numbers.get("launches", 1.0), parts["penalty"])


def counted_as_now(numbers: Mapping[str, float]) -> bool:
    """Whether features that were `recorded` are of this version; what says nothing is of the first."""
    return numbers.get(_VERSION, 1) == COUNTED


def features_of(calls: Sequence[Call], sizes: Mapping[str, int], weights: Iterable[str],
                profile: Profile, flops: float = 0.0, since: Mapping[str, float] | None = None) -> Features:
    """Features of launches that together compute a group.

    `sizes` are the bytes of every buffer, `weights` names those that lie in memory when a run begins, as constants of
    a network do; all others are in the nearest cache that holds what the launch touches, as activations are. Loops with
    bounds that depend on data run as often as makes the multiply-adds those of `flops`, the operations of the group.

    `since` says of buffers how many bytes were touched since they were touched last, as it is within a network: only a
    cache with room for these has them still, and what is looked up lies apart. It goes before `weights`.
    """
    ago = dict.fromkeys(weights, math.inf) | dict(since or {})
    work: Counter[str] = Counter()
    moved: Counter[str] = Counter()
    penalty: Counter[str] = Counter()
    counted, unknown = _counted(calls, profile, flops)
    for call, counts in zip(calls, counted, strict=True):
        work.update(work_of(counts))
        penalty.update({"chunks": counts.chunks})
        moved.update(_crossing(call, sizes, ago, profile, unknown, since is not None))
    return Features(dict(work), dict(moved), float(len(calls)), dict(penalty))


def work_of(counts: LoopCounts) -> dict[str, float]:
    """WORK -> units of one launch."""
    vector, scalar = Counter(counts.vector), Counter(counts.scalar)
    functions = sum(_LENGTHS[name] * calls for name, calls in counts.math.items())
    shuffles = vector["shuffle"] + _REDUCE * vector["reduce"]
    arithmetic = vector["mad"] + vector["arithmetic"] + vector["cast"] + _DOT * (vector["dot"] + vector["dot_narrow"])
    loads, partial = vector["load"] + vector["broadcast"], vector["partial"]
    single = scalar.total() - scalar["divide"] + WORK["divide"] * scalar["divide"]
    loops, computed = counts.iterations + counts.branches, arithmetic + functions + shuffles
    started = computed + loads + vector["store"] + partial + single + loops
    ports = max(computed, loads + scalar["load"], WORK["store"] * (vector["store"] + scalar["store"]),
                started / _QUEUES)
    return {"ports": ports, "arithmetic": arithmetic, "function": functions, "shuffle": shuffles, "load": loads,
            "store": vector["store"], "partial": partial, "divide": vector["divide"], "scalar": single,
            "index": counts.index, "loop": loops, "entry": counts.entries, "prefetch": counts.prefetches,
            "chain": counts.chain}


def _counted(calls: Sequence[Call], profile: Profile, flops: float) -> tuple[list[LoopCounts], float]:
    """Counts of every launch, and how often loops with unknown bounds run: as the operations ask for, else once."""
    def count(unknown: float) -> list[LoopCounts]:
        return [count_loops(call.func, call.dims, profile.simd_bits, unknown) for call in calls]

    def products(found: Sequence[LoopCounts]) -> float:
        return sum(counts.vector.get("mad", 0.0) for counts in found)

    once = count(1.0)
    if not flops or not any(counts.unknown for counts in once):
        return once, 1.0
    first, second = products(once), products(count(2.0))
    if second <= first:
        return once, 1.0
    unknown = max(1.0, 1.0 + (flops / 2 / profile.lanes(FLOAT32) - first) / (second - first))
    return count(unknown), unknown


def _crossing(call: Call, sizes: Mapping[str, int], ago: Mapping[str, float], profile: Profile,
              unknown: float, scattered: bool) -> dict[str, float]:
    """Name of a memory -> bytes of one launch that cross from there into the cache before it.

    A cache that holds all that the launch touches has it already, but for what was touched too long ago.
    """
    nest = touched(call.func, call.dims, unknown, scattered)
    held = {param.name: float(sizes[arg]) for param, arg in zip(call.func.params, call.args, strict=True)}
    held.update(local_bytes(call.func, call.dims))
    back = {param.name: ago[arg] for param, arg in zip(call.func.params, call.args, strict=True) if arg in ago}
    everything = footprint(nest, held)
    found: dict[str, float] = {}
    for i, (name, capacity) in enumerate(crossings(profile)):
        room, ways = _HELD * capacity, 0 if i else int(capacity) // WAY      # sets of farther caches are not known
        crossing = traffic(nest, room, held, ways) if room else everything
        far = {buffer for buffer, count in back.items() if count > room}
        warm = sum(count for buffer, count in everything.items() if buffer not in far) <= room
        found[name] = sum(count for buffer, count in crossing.items() if buffer in far or not warm)
    return found


def crossings(profile: Profile) -> list[tuple[str, float]]:
    """For every memory but the nearest cache, nearest first: its name, and the bytes of the cache before it.

    A chip of which no cache is known has one: main memory, before which nothing is held.
    """
    kinds = ("l1d", "l2", "l3", "main")
    levels = [(memory.name, float(memory.size)) for kind in kinds for memory in profile.chip.memories
              if memory.kind == kind]
    if not any(memory.kind == "main" for memory in profile.chip.memories):
        levels.append(("memory", float("inf")))
    if len(levels) == 1:
        return [(levels[0][0], 0.0)]
    return [(name, capacity) for (_, capacity), (name, _) in zip(levels, levels[1:], strict=False)]
