"""What a kernel is: it declares variants for a group and lowers a chosen one to loop functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from meta_infer.hardware.profile import Profile
from meta_infer.ir.graph import Shape
from meta_infer.ir.group import Group, Layout, Variant
from meta_infer.ir.loop import LoopFunc
from meta_infer.ir.shapes import Dim, symbols_of
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

    `finds` are the sizes known once it has run. A kernel whose output's size depends on data has two calls: one
    counts into a temp, the other, whose dims may use the symbol, writes exactly as much.
    """

    func: LoopFunc
    args: tuple[str, ...]
    dims: tuple[Dim, ...]
    finds: tuple[SizeFound, ...] = ()


@dataclass(frozen=True)
class Lowering:
    """A group as code: launches in order, weights packed at build, memory between launches.

    `packed` and `temps` names need be unique within the lowering only; `lower` makes them unique in the program.
    """

    calls: tuple[KernelCall, ...]
    packed: Mapping[str, np.ndarray] = field(default_factory=dict)
    temps: tuple[Temp, ...] = ()


@dataclass(frozen=True)
class Kernel:
    """A kernel class.

    anchors   ops it can compute as a group's anchor.
    variants  (group, profile) -> feasible variants, best guess first; empty when the group is out of reach.
              A variant that takes blocked layouts lists them for every 4-D (3-D) operand it wants blocked.
    lower     (group, variant, layouts of all group inputs and outputs, profile) -> Lowering.
    """

    name: str
    anchors: tuple[str, ...]
    variants: Callable[[Group, Profile], Iterable[Variant]]
    lower: Callable[[Group, Variant, Mapping[str, Layout], Profile], Lowering]
