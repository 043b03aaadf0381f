"""The lowering of C text that a user brings: one function that computes work items, `grain` of them to a chunk."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.graph import Attr, Shape
from meta_infer.ir.group import PLAIN, Group, Layout, Variant
from meta_infer.ir.loop import Buffer, Expr, minimum
from meta_infer.ir.shapes import Dim, product
from meta_infer.ir.source import Linked, Source
from meta_infer.kernels.kernel import KernelCall, KnobValue, Lowering
from meta_infer.kernels.point import Point, apply_nodes, store_outputs
from meta_infer.ops.opdef import TensorType
from meta_infer.support.dtypes import UINT8, dtype_of

Attrs = Mapping[str, Attr]
Items = Callable[[Sequence[TensorType | None], Sequence[TensorType], Attrs], Dim]
"""(types of inputs, types of outputs, attributes) -> number of work items."""
Pack = Callable[[np.ndarray, Mapping[str, KnobValue]], np.ndarray]
"""(constant operand, values of the knobs) -> the array that the text finds in its place."""


def elements(inputs: Sequence[TensorType | None], outputs: Sequence[TensorType], attrs: Attrs) -> Dim:
    """Items of text that computes one element of the first output each."""
    return product(outputs[0].shape)


@dataclass(frozen=True)
class CText:
    """C text and what it stands on; docs/custom-ops.md and docs/custom-kernels.md list the names it finds.

    `pack` has a function for every operand, by position, that is given in another form. `file` is what the compiler's
    messages call the text.
    """

    source: str
    items: Items = elements
    grain: int = 4096
    math: tuple[str, ...] = ()
    head: str = ""
    linked: tuple[Linked, ...] = ()
    pack: Mapping[int, Pack] = field(default_factory=dict)
    file: str = ""

    def lower(self, group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
        """The group as one call; the text leaves the anchor's result in the group's output, where the epilogue, if
        there is one, takes it up row by row."""
        node, b = group.anchor, Builder(variant.kernel)
        packed = {f"packed{i}": _packed(pack, group.constants[node.inputs[i]], variant.knobs)
                  for i, pack in self.pack.items()}
        buffers, args = self._bind(b, group, packed)
        inputs, outputs = types_of(group)
        total = b.dim(self.items(inputs, outputs, node.attrs))
        values: list[tuple[str, Expr]] = []
        held: list[tuple[str, Buffer]] = []
        operands = [(f"in{i}", name) for i, name in enumerate(node.inputs) if name]
        made = group.outputs if group.epilogue else [name for name in node.outputs if name]
        for stem, name in (*operands, *((f"out{i}", name) for i, name in enumerate(made))):
            own = f"packed{stem[2:]}" if stem.startswith("in") else ""
            shape: Shape = group.values[name].shape
            held.append((stem, buffers[own] if own in packed else buffers[name]))
            values += [(f"{stem}_d{axis}", b.dim(dim)) for axis, dim in enumerate(shape)]
            size = packed[own].size if own in packed else product(layouts.get(name, PLAIN).physical(shape))
            values.append((f"{stem}_size", b.dim(size)))
        if variant.scratch_bytes:
            held.append(("scratch", b.scratch("scratch", UINT8, variant.scratch_bytes)))
        absent = [f"in{i}" for i, name in enumerate(node.inputs) if not name]
        head = [f"const void* const {name} = 0; (void){name};" for name in absent] + attributes(node.attrs)
        macros = tuple((f"knob_{name}", int(value)) for name, value in sorted(variant.knobs.items()))
        with b.chunks((total + (self.grain - 1)) // self.grain) as chunk:
            begin = b.let(chunk * self.grain, "begin")
            end = b.let(minimum(begin + self.grain, total), "end")
            values += [("begin", begin), ("end", end)]
            b.emit(Source(self.source, tuple(values), tuple(held), self.math, macros, self.head, self.linked,
                          self.file, "\n".join(head)))
            if group.epilogue:
                rows = rows_per_item(group, self.items)
                assert rows is not None
                _epilogue(b, group, buffers, layouts, (begin * rows, end * rows), profile)
        func, dims = b.finish()
        return Lowering((KernelCall(func, args, dims),), packed)

    def _bind(self, b: Builder, group: Group, packed: Mapping[str, np.ndarray]
              ) -> tuple[dict[str, Buffer], tuple[str, ...]]:
        """Parameters by value name, and the arguments of the call in their order."""
        operands = [*group.anchor.inputs]
        replaced = {name for i, name in enumerate(operands) if i in self.pack}
        replaced -= {name for i, name in enumerate(operands) if i not in self.pack}
        read = {name for node in group.epilogue for name in node.inputs}
        names = [name for name in group.inputs if name not in replaced or name in read]
        buffers = {name: b.input(f"in{i}", group.values[name].dtype) for i, name in enumerate(names)}
        buffers |= {name: b.input(name, dtype_of(array)) for name, array in packed.items()}
        for i, name in enumerate(group.outputs):
            buffers[name] = b.output(f"out{i}", group.values[name].dtype)
        return buffers, (*names, *packed, *group.outputs)


def types_of(group: Group) -> tuple[list[TensorType | None], list[TensorType]]:
    """Types of the anchor's inputs, None where absent, and of its outputs."""
    node = group.anchor
    types = {name: TensorType(value.dtype, value.shape) for name, value in group.values.items()}
    return [types[name] if name else None for name in node.inputs], [types[name] for name in node.outputs if name]


def rows_per_item(group: Group, items: Items) -> int | None:
    """Rows of the output, along its last axis, that a work item makes, when that is a whole number of them."""
    inputs, outputs = types_of(group)
    shape = outputs[0].shape
    if not shape:
        return None
    rows, count = product(shape[:-1]), items(inputs, outputs, group.anchor.attrs)
    if rows == count:
        return 1
    known = isinstance(rows, int) and isinstance(count, int) and count > 0 and rows % count == 0
    return int(rows) // int(count) if known else None                  # type: ignore[arg-type, call-overload]


def _epilogue(b: Builder, group: Group, buffers: Mapping[str, Buffer], layouts: Mapping[str, Layout],
              rows: tuple[Expr, Expr], profile: Profile) -> None:
    """The elementwise nodes after the anchor, on rows of the output that hold the anchor's results."""
    (out,) = group.outputs
    shape = group.values[out].shape
    width, lanes = b.dim(shape[-1]), max(1, profile.lanes(group.values[out].dtype))
    with b.loop(rows[0], rows[1], name="row") as row:
        coords: list[Expr] = []
        rest: Expr = row
        for dim in reversed(shape[:-1]):
            coords.insert(0, b.let(rest % b.dim(dim), "at"))
            rest = b.let(rest // b.dim(dim), "rest")
        with b.loop(0, width, lanes, name="column") as column:
            count = None if lanes == 1 else b.let(minimum(width - column, lanes), "count")
            point = Point(shape, (*coords, column), len(shape) - 1, lanes, count)
            found = b.let(b.load(buffers[out], row * width + column, lanes, count), "found")
            anchor = next(name for name in group.anchor.outputs if name)
            known = apply_nodes(b, group.epilogue, group.values, {anchor: found}, buffers, layouts, point)
            store_outputs(b, group, known, buffers, layouts, point)


def _packed(pack: Pack, array: np.ndarray, knobs: Mapping[str, KnobValue]) -> np.ndarray:
    return np.ascontiguousarray(pack(array, knobs))


def attributes(attrs: Attrs) -> list[str]:
    """Numeric attributes as C constants, lists of them as arrays."""
    lines = []
    for name, attr in attrs.items():
        items = attr if isinstance(attr, tuple) else (attr,)
        if not items or not all(isinstance(item, int | float) for item in items):
            continue
        kind = "double" if any(isinstance(item, float) for item in items) else "int64_t"
        many, text = ("[]", f"{{{', '.join(map(_number, items))}}}") if items is attr else ("", _number(attr))
        lines.append(f"static const {kind} attr_{name}{many} = {text}; (void)attr_{name};")
    return lines


def _number(value: Attr) -> str:
    return value.hex() if isinstance(value, float) else str(int(value))  # type: ignore[arg-type]
