"""What is measured: compiled kernels, and the memory they are called on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from meta_infer.backends.base import Artifact
from meta_infer.backends.cpu.emit_c import emit_module
from meta_infer.backends.cpu.toolchain import compile_module
from meta_infer.ir.group import PLAIN, Group, Layout
from meta_infer.ir.shapes import evaluate, product
from meta_infer.kernels.kernel import Lowering
from meta_infer.support.dtypes import dtype_of


@dataclass(frozen=True)
class MeasuredBuffer:
    """Memory of one argument: its size, the dtype that says how it is filled, and whether it holds weights.

    Weights lie at another place in every run, over at least twice the last-level cache; all else stays warm.
    """

    bytes: int
    dtype: str = "float32"
    weights: bool = False


@dataclass(frozen=True)
class Launch:
    """One kernel over all its chunks: `args` name buffers, `dims` are values."""

    kernel: str
    args: tuple[str, ...]
    dims: tuple[int, ...] = ()


@dataclass(frozen=True)
class Candidate:
    """Launches that together are one way to compute something, from one artifact made of `emit_module` sources alone.

    `flops` of one run, 0 when no share of the peak is wanted.
    """

    name: str
    artifact: Artifact
    launches: tuple[Launch, ...]
    buffers: Mapping[str, MeasuredBuffer]
    flops: int = 0


def candidate_for(name: str, group: Group, lowering: Lowering, layouts: Mapping[str, Layout], sizes: Mapping[str, int],
                  isa: str, flops: int = 0) -> Candidate:
    """Compile a lowered group into a candidate, at these values of its symbols. Raises ToolchainError."""
    calls = [replace(call, func=replace(call.func, name=f"{call.func.name}_{i}"))
             for i, call in enumerate(lowering.calls)]
    artifact = compile_module(emit_module([call.func for call in calls], (), (), isa), isa)
    buffers = {}
    for value_name in (*group.inputs, *group.outputs):
        value = group.values[value_name]
        elements = evaluate(product(layouts.get(value_name, PLAIN).physical(value.shape)), sizes)
        buffers[value_name] = MeasuredBuffer(elements * value.dtype.bytes, value.dtype.name,
                                             value_name in group.constants)
    for temp in lowering.temps:
        buffers[temp.name] = MeasuredBuffer(evaluate(product(temp.shape), sizes) * temp.dtype.bytes, temp.dtype.name)
    for packed, array in lowering.packed.items():
        buffers[packed] = MeasuredBuffer(array.nbytes, dtype_of(array).name, True)
    launches = tuple(Launch(call.func.name, call.args, tuple(evaluate(d, sizes) for d in call.dims)) for call in calls)
    used = {arg for launch in launches for arg in launch.args}
    return Candidate(name, artifact, launches, {n: b for n, b in buffers.items() if n in used}, flops)
