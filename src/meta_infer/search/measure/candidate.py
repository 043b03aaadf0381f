"""What is measured: compiled kernels, and the memory they are called on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from meta_infer.backends.base import Artifact
from meta_infer.backends.cpu.emit_c import KernelUnit, emit_alone, emit_table
from meta_infer.backends.cpu.toolchain import compile_module
from meta_infer.cost.algorithms import size_of
from meta_infer.hardware.profile import Profile
from meta_infer.ir.graph import Value
from meta_infer.ir.group import PLAIN, Group, Layout
from meta_infer.ir.shapes import evaluate, product, symbols_of
from meta_infer.kernels.kernel import KernelCall, Lowering
from meta_infer.kernels.movement.reorder import reorder
from meta_infer.support.dtypes import dtype_of

Role = Literal["weights", "input", "output"]


@dataclass(frozen=True)
class MeasuredBuffer:
    """Memory of one argument: its size, the dtype that says how it is filled, and what the launches do with it.

    Weights lie at another place in every run, over at least twice the last-level cache. Inputs are only read, outputs
    are written before they are read (results, and what passes from launch to launch); both stay warm.
    """

    bytes: int
    dtype: str
    role: Role


@dataclass(frozen=True)
class Launch:
    """One kernel over all its chunks: `args` name buffers, `dims` are values."""

    kernel: str
    args: tuple[str, ...]
    dims: tuple[int, ...] = ()


@dataclass(frozen=True)
class Candidate:
    """Launches that together are one way to compute something, from one artifact made of `emit_module` sources alone.

    Several candidates may share an artifact; `source` is the C of this one's kernels only, in the order of their
    launches. `flops` of one run, 0 when no share of the peak is wanted.
    """

    name: str
    artifact: Artifact
    source: str
    launches: tuple[Launch, ...]
    buffers: Mapping[str, MeasuredBuffer]
    flops: int = 0


@dataclass(frozen=True)
class Uncompiled:
    """A candidate before its kernels are compiled; `sizes` are the values of its symbols."""

    name: str
    calls: tuple[KernelCall, ...]
    buffers: Mapping[str, MeasuredBuffer]
    sizes: Mapping[str, int] = field(default_factory=dict)
    flops: int = 0
    _units: dict[str, tuple[KernelUnit, ...]] = field(default_factory=dict, repr=False, compare=False)

    def units(self, isa: str) -> tuple[KernelUnit, ...]:
        """A translation unit for the kernel of every call; printed once."""
        if isa not in self._units:
            self._units[isa] = tuple(emit_alone(call.func, isa) for call in self.calls)
        return self._units[isa]


def lowered_group(name: str, group: Group, lowering: Lowering, layouts: Mapping[str, Layout],
                  sizes: Mapping[str, int], flops: int = 0) -> Uncompiled:
    """A lowered group at these values of its symbols.

    Sizes that its own calls find are taken at their upper bounds, so that whatever is found in made-up data fits.
    """
    sizes = {**_largest_found(group, lowering), **sizes}
    buffers: dict[str, MeasuredBuffer] = {}
    for value_name in (*group.inputs, *group.outputs):
        value = group.values[value_name]
        elements = evaluate(product(layouts.get(value_name, PLAIN).physical(value.shape)), sizes)
        role: Role = "weights" if value_name in group.constants else "input" if value_name in group.inputs else "output"
        buffers[value_name] = MeasuredBuffer(elements * value.dtype.bytes, value.dtype.name, role)
    for temp in lowering.temps:
        count = evaluate(product(temp.shape), sizes)
        buffers[temp.name] = MeasuredBuffer(count * temp.dtype.bytes, temp.dtype.name, "output")
    for kept in lowering.prepared:
        count = evaluate(product(kept.shape), sizes)
        buffers[kept.name] = MeasuredBuffer(count * kept.dtype.bytes, kept.dtype.name, "weights")
    for packed, array in lowering.packed.items():
        buffers[packed] = MeasuredBuffer(array.nbytes, dtype_of(array.dtype).name, "weights")
    used = {arg for call in lowering.calls for arg in call.args}
    return Uncompiled(name, lowering.calls, {n: b for n, b in buffers.items() if n in used}, sizes, flops)


def lowered_conversion(value: Value, source: Layout, target: Layout, points: Sequence[Mapping[str, int]],
                       profile: Profile) -> tuple[Uncompiled, ...]:
    """The conversion of a tensor from one layout to another, for each of these values of its symbols."""
    calls = reorder(value, source, target, profile).calls
    name = f"Reorder({value.dtype}[{', '.join(map(str, value.shape))}]) {source} -> {target}"

    def buffer(layout: Layout, role: Role, sizes: Mapping[str, int]) -> MeasuredBuffer:
        elements = size_of(product(layout.physical(value.shape)), sizes)
        return MeasuredBuffer(elements * value.dtype.bytes, value.dtype.name, role)

    return tuple(Uncompiled(name, calls, {"source": buffer(source, "input", sizes),
                                          "target": buffer(target, "output", sizes)}, sizes) for sizes in points)


def _largest_found(group: Group, lowering: Lowering) -> dict[str, int]:
    found = {size.symbol for call in lowering.calls for size in call.finds}
    symbols = {s for name in group.outputs for dim in group.values[name].shape for s in symbols_of(dim)}
    return {symbol.name: symbol.hi for symbol in symbols if symbol.name in found}


def compile_candidates(uncompiled: Sequence[Uncompiled], isa: str) -> tuple[Candidate, ...]:
    """All of them in one artifact; a function that several of them launch is compiled once. Raises ToolchainError."""
    units = {unit.symbol: unit.text for one in uncompiled for unit in one.units(isa)}
    table = emit_table({symbol: symbol for symbol in units})
    artifact = compile_module([*units.values(), table], isa)
    return tuple(Candidate(one.name, artifact, source_of(one, isa),
                           launches_of(one, [unit.symbol for unit in one.units(isa)]), one.buffers, one.flops)
                 for one in uncompiled)


def source_of(uncompiled: Uncompiled, isa: str) -> str:
    """The C of its kernels only, which does not tell what else is compiled with them."""
    return "\n".join(unit.text for unit in uncompiled.units(isa))


def launches_of(uncompiled: Uncompiled, names: Sequence[str]) -> tuple[Launch, ...]:
    """Its calls, whose kernels will have these names."""
    return tuple(Launch(name, call.args, tuple(evaluate(d, uncompiled.sizes) for d in call.dims))
                 for name, call in zip(names, uncompiled.calls, strict=True))
