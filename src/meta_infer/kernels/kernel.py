"""What a kernel is: it declares variants for a group and lowers a chosen one to loop functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from meta_infer.hardware.profile import Profile
from meta_infer.ir.graph import Shape
from meta_infer.ir.group import Group, Layout, Variant
from meta_infer.ir.loop import LoopFunc
from meta_infer.ir.shapes import Dim, symbols_of
from meta_infer.kernels.packed_later import Packed
from meta_infer.support.dtypes import DType


@dataclass(frozen=True)
class Temp:
    """Memory between two calls of one group, placed in the arena."""

    name: str
    dtype: DType
    shape: Shape


@dataclass(frozen=True)
class SizeFound:
    """Symbol `symbol` takes its value from element `index` of temp `source`, of int64."""

    symbol: str
    source: str
    index: int = 0


def sizes_found(dim: Dim, source: str, index: int = 0) -> tuple[SizeFound, ...]:
    """What element `index` of temp `source` tells when it is the size `dim`: nothing when that is known already."""
    return tuple(SizeFound(symbol.name, source, index) for symbol in symbols_of(dim))


@dataclass(frozen=True)
class KernelCall:
    """One launch. `args` name, for each param of `func`: a group input/output, a `packed` constant or a temp.

    `pieces` names arguments of which chunk i touches the i-th of equal pieces and no other, with a text that says how
    they are cut, size and number included: calls that cut a tensor alike need not wait for one another.
    `finds` are the sizes known once it has run. A kernel whose output's size depends on data has two calls: one
    counts into a temp, the other, whose dims may use the symbol, writes exactly as much.
    """

    func: LoopFunc
    args: tuple[str, ...]
    dims: tuple[Dim, ...]
    finds: tuple[SizeFound, ...] = ()
    pieces: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Lowering:
    """A group as code: launches in order, weights packed at build, memory between launches.

    `prepare` are launches made once, when a package is loaded, from `packed` into `prepared`, which stays as it is:
    weights in a form that would take more room in the file. Neither has symbolic sizes.
    Names of `packed`, `temps` and `prepared` need be unique within the lowering only; `lower` makes them unique in the
    program.
    """

    calls: tuple[KernelCall, ...]
    packed: Mapping[str, Packed] = field(default_factory=dict)
    temps: tuple[Temp, ...] = ()
    prepare: tuple[KernelCall, ...] = ()
    prepared: tuple[Temp, ...] = ()


KnobValue = int | str


@dataclass(frozen=True)
class Knob:
    """A choice inside a variant, and the values worth trying, in a sensible order; its default is among them."""

    name: str
    values: tuple[KnobValue, ...]


Reason = Literal["registers", "cache", "alignment", "shape", "code", "isa", "custom", "value"]


@dataclass(frozen=True)
class Refusal:
    """Why a variant cannot have these knob values: `reason` is counted, `detail` is read by people.

    registers  accumulators and operands exceed the vector registers.
    cache      what has to stay in a cache is larger than it.
    alignment  a size is no multiple of what the code needs.
    shape      larger than the problem: the same code as a smaller value, or none.
    code       more statements than a kernel may have.
    isa        the instruction set lacks what it needs.
    custom     a kernel that a user brings says no.
    value      of another kind than the knob has: a word that is none of its own, a number below all of its numbers.
    """

    knobs: Mapping[str, KnobValue]
    reason: Reason
    detail: str


def _no_knobs(group: Group, variant: Variant, profile: Profile) -> tuple[Knob, ...]:
    return ()


def _no_choice(group: Group, variant: Variant, values: Mapping[str, KnobValue], profile: Profile) -> Variant:
    return variant


@dataclass(frozen=True)
class Kernel:
    """A kernel class.

    anchors   ops it can compute as a group's anchor.
    variants  (group, profile) -> feasible variants, best guess first; empty when the group is out of reach.
              A variant that takes blocked layouts lists them for every 4-D (3-D) operand it wants blocked.
    lower     (group, variant, layouts of all group inputs and outputs, profile) -> Lowering. Reads the variant's knobs.
    knobs     (group, variant, profile) -> what can be chosen inside the variant; `variant.knobs` has a value for each.
    tune      (group, variant, values of some knobs, profile) -> the variant with them, or why that cannot be.
    """

    name: str
    anchors: tuple[str, ...]
    variants: Callable[[Group, Profile], Iterable[Variant]]
    lower: Callable[[Group, Variant, Mapping[str, Layout], Profile], Lowering]
    knobs: Callable[[Group, Variant, Profile], tuple[Knob, ...]] = _no_knobs
    tune: Callable[[Group, Variant, Mapping[str, KnobValue], Profile], Variant | Refusal] = _no_choice
