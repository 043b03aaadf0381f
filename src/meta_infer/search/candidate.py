"""What is measured: compiled kernels, and the memory they are called on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from meta_infer.backends.base import Artifact
from meta_infer.backends.cpu.emit_c import emit_module
from meta_infer.backends.cpu.toolchain import compile_module
from meta_infer.ir.group import PLAIN, Group, Layout
from meta_infer.ir.shapes import evaluate, product
from meta_infer.kernels.kernel import Lowering
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
    buffers: dict[str, MeasuredBuffer] = {}
    for value_name in (*group.inputs, *group.outputs):
        value = group.values[value_name]
        elements = evaluate(product(layouts.get(value_name, PLAIN).physical(value.shape)), sizes)
        role: Role = "weights" if value_name in group.constants else "input" if value_name in group.inputs else "output"
        buffers[value_name] = MeasuredBuffer(elements * value.dtype.bytes, value.dtype.name, role)
    for temp in lowering.temps:
        count = evaluate(product(temp.shape), sizes)
        buffers[temp.name] = MeasuredBuffer(count * temp.dtype.bytes, temp.dtype.name, "output")
    for packed, array in lowering.packed.items():
        buffers[packed] = MeasuredBuffer(array.nbytes, dtype_of(array).name, "weights")
    launches = tuple(Launch(call.func.name, call.args, tuple(evaluate(d, sizes) for d in call.dims)) for call in calls)
    used = {arg for launch in launches for arg in launch.args}
    return Candidate(name, artifact, launches, {n: b for n, b in buffers.items() if n in used}, flops)
