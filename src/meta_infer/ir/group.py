"""Operator IR: fused groups, the formats of their tensors, and the variant chosen for each.

A `Group` is one anchor node, elementwise nodes before it (prologue) and after it (epilogue). A kernel computes a
whole group in one pass. A `Plan` covers every node of a graph by exactly one group and gives every value a format.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from meta_infer.ir.graph import Graph, Node, Value
from meta_infer.ir.shapes import Dim, ceildiv
from meta_infer.support.dtypes import DType


@dataclass(frozen=True)
class Layout:
    """Order of a tensor's elements in memory.

    Plain (`block == 0`) is dense row-major. Blocked splits `axis` into ceil(C/block) outer and `block` inner
    positions, the inner ones last: NCHW blocked on axis 1 by 8 is NCHW8c, [N, ceil(C/8), H, W, 8].
    Lanes beyond C (when C % block != 0) hold `padding`: 'zero', or 'garbage' that may be NaN.
    """

    block: int = 0
    axis: int = 1
    padding: str = "zero"

    def __str__(self) -> str:
        return f"b{self.block}@{self.axis}" if self.block else "plain"

    def physical(self, shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
        """The dense shape in memory of a tensor of logical `shape`."""
        if not self.block:
            return shape
        outer = [*shape]
        outer[self.axis] = ceildiv(shape[self.axis], self.block)
        return (*outer, self.block)


PLAIN = Layout()


def blocked(block: int, axis: int = 1) -> Layout:
    """NCHWc and its kin: `axis` in blocks, padding lanes zero."""
    return Layout(block, axis)


@dataclass(frozen=True)
class Format:
    """Where and how a value is stored: what a plan decides for each value, and a conversion changes."""

    dtype: DType
    layout: Layout = PLAIN
    space: str = "ram"
    device: str = "host"


@dataclass(frozen=True)
class Group:
    """One unit of code: prologue -> anchor -> epilogue, with the types of all values it touches.

    `inputs` are the values read from outside (anchor's first, in its order; then what the epilogue adds),
    `outputs` those that anybody outside reads. `constants` are the inputs known at build.
    Nodes of the epilogue are elementwise, in topological order, and each is the only consumer of the value that
    links it to the chain. The prologue is a Pad, or whole groups before this one, their anchors among them
    (passes/alternatives.py): what they make is read inside only. A kernel refuses a prologue that it does not know.
    """

    anchor: Node
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    values: Mapping[str, Value]
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    prologue: tuple[Node, ...] = ()
    epilogue: tuple[Node, ...] = ()

    @property
    def nodes(self) -> tuple[Node, ...]:
        return (*self.prologue, self.anchor, *self.epilogue)

    @property
    def origins(self) -> tuple[str, ...]:
        """ONNX nodes this group stands for."""
        return tuple(dict.fromkeys(o for node in self.nodes for o in node.origins))

    @property
    def label(self) -> str:
        return "+".join(node.op for node in self.nodes)

    def in_value(self, i: int) -> Value | None:
        """Type of the anchor's i-th input, None when absent."""
        name = self.anchor.inputs[i] if i < len(self.anchor.inputs) else ""
        return self.values[name] if name else None


@dataclass(frozen=True)
class Variant:
    """One way to compute a group: a kernel with its knobs, and what it asks of its surroundings."""

    kernel: str
    name: str
    inputs: Mapping[str, Layout]          # layout wanted for each of the group's non-constant inputs
    outputs: Mapping[str, Layout]         # layout yielded for each output
    knobs: Mapping[str, int | str] = field(default_factory=dict)
    scratch_bytes: int = 0                # per thread, upper bound
    packed_bytes: int = 0                 # weights after packing
    prepared_bytes: int = 0               # what is made of them when a package is loaded, and stays
    temp_bytes: int = 0                   # in the arena while it runs, at the usual upper bounds of sizes
    risk: float = 0.0                     # bound on the relative error this variant adds beyond rounding
    flops: Dim = 0
    cost: float = 0.0                     # the kernel's guess before anything is measured: float32 operations that
                                          # take as long at the chip's peak, at usual sizes; 0 when it has none


def layouts_of(group: Group, variant: Variant) -> dict[str, Layout]:
    """The layout of every input and output of `group` under `variant`: plain where that says nothing."""
    return {name: PLAIN for name in (*group.inputs, *group.outputs)} | {**variant.inputs, **variant.outputs}


@dataclass(frozen=True)
class PlannedGroup:
    group: Group
    variant: Variant


@dataclass(frozen=True)
class Plan:
    """What default_plan or the search decided: a cover of every node, a variant each, a format per value.

    `groups` are in execution order. Control-flow nodes (If, Loop) appear as groups of their own whose variant is
    'region' and whose bodies are planned in `regions`, keyed by (node's first output name, region index).
    A value that some group wants in another layout than its format says is converted by `lower` once per layout.
    """

    graph: Graph
    groups: tuple[PlannedGroup, ...]
    formats: Mapping[str, Format]
    regions: Mapping[tuple[str, int], Plan] = field(default_factory=dict)


def walk_plans(plan: Plan) -> Iterator[Plan]:
    """A plan and those of its regions, outer before inner."""
    yield plan
    for region in plan.regions.values():
        yield from walk_plans(region)
