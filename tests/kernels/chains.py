"""Groups of several anchors for tests: nodes one after another, each fed by the one before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from meta_infer.ir.graph import Attr, Node, Value
from meta_infer.ir.group import Group
from meta_infer.ops.infer import counted_symbols, infer_node
from meta_infer.ops.opdef import TensorType
from meta_infer.support.dtypes import dtype_of

from .harness import Case, Shapes


@dataclass(frozen=True)
class Part:
    """A node whose operand number `at` is the value before it; `extra` are its other operands, in order."""

    op: str
    extra: Mapping[str, np.ndarray] = field(default_factory=dict)
    attrs: Mapping[str, Attr] = field(default_factory=dict)
    at: int = 0
    constant: bool = False                                 # the extra operands are known at build
    reads: str = ""                                        # the value it is fed by, where that is not the one before


def conv_part(rng: np.random.Generator, name: str, channels: int, out: int, kernel: Sequence[int] = (1, 1), *,
              strides: Sequence[int] = (1, 1), pads: Sequence[int] = (0, 0, 0, 0), dilations: Sequence[int] = (1, 1),
              group: int = 1, bias: bool = True) -> Part:
    extra = {f"{name}_w": (rng.standard_normal((out, channels // group, *kernel)) / np.sqrt(channels / group)).astype(
        np.float32)}
    if bias:
        extra[f"{name}_b"] = rng.standard_normal(out).astype(np.float32)
    attrs: dict[str, Attr] = {"kernel_shape": tuple(kernel), "strides": tuple(strides), "pads": tuple(pads),
             "dilations": tuple(dilations), "group": group}
    return Part("Conv", extra, attrs, constant=True)


def make_chain(inputs: Mapping[str, np.ndarray], parts: Sequence[Part], anchor: int, *, shapes: Shapes | None = None,
               outputs: Sequence[str] = ()) -> Case:
    """The group of `parts`, whose first reads the first of `inputs`; part number `anchor` is its anchor.

    Part i yields value `v{i}`; extra operands named like an input or an earlier value are that value.
    """
    arrays, known = dict(inputs), {}
    types = {name: TensorType(dtype_of(a), (shapes or {}).get(name, a.shape)) for name, a in inputs.items()}
    nodes, last = [], next(iter(inputs))
    for i, part in enumerate(parts):
        for name, array in part.extra.items():
            if name not in types:
                arrays[name], types[name] = array, TensorType(dtype_of(array), array.shape)
                if part.constant:
                    known[name] = array
        names = [*part.extra]
        names.insert(part.at, part.reads or last)
        last = f"v{i}"
        node = Node(part.op, tuple(names), (last,), dict(part.attrs), (f"{part.op.lower()}_{i}",))
        types[last] = infer_node(node, types, known, counted_symbols("found"))[0]
        nodes.append(node)
    made = {node.outputs[0] for node in nodes}
    order = [nodes[anchor], *nodes[:anchor], *nodes[anchor + 1:]]
    read = dict.fromkeys(name for node in order for name in node.inputs if name not in made)
    values = {name: Value(name, t.dtype, tuple(t.shape)) for name, t in types.items()}
    group = Group(nodes[anchor], tuple(read), tuple(outputs) or (last,), values, known, tuple(nodes[:anchor]),
                  tuple(nodes[anchor + 1:]))
    return Case(group, arrays)
