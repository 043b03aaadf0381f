"""Compute at build what depends on constants alone, with each op's numpy reference.

    before                                              after
    const %w: float32[2, 2] = (1.0, 2.0, 3.0, 4.0)      const %t: float32[2, 2] = (1.0, 3.0, 2.0, 4.0)
    %t: float32[2, 2] = Transpose(%w) {perm = (1, 0)}   %y: float32[N, 2] = MatMul(%x, %t)
    %y: float32[N, 2] = MatMul(%x, %t)

    %s: int64[2] = Shape(%z)                            const %s: int64[2] = (3, 4)       when %z is [3, 4]

A result of more than GROWTH_BYTES that is more than GROWTH times as large as its operands stays an op: a package
should not carry a megabyte of zeros to save one Expand, but weights stored in int8 may become float32.
"""

from __future__ import annotations

import math

import numpy as np

from meta_infer.ir.graph import Attr, Graph, Node, Value
from meta_infer.ir.shapes import Expr
from meta_infer.ops.registry import op_named
from meta_infer.ops.run_reference import run_reference
from meta_infer.passes.rewrite import Edit, apply_rule
from meta_infer.support.dtypes import FLOAT32

GROWTH = 4
GROWTH_BYTES = 64 * 1024


def fold_constants(graph: Graph) -> Graph:
    """Replace nodes of constant operands, and sizes of static shapes, by constants. See the module."""
    return apply_rule(graph, _fold)


def _fold(edit: Edit, node: Node) -> bool:
    values = [edit.value(name) for name in node.outputs if name]
    if node.regions or not all(value.is_static for value in values) or any(value.quant for value in values):
        return False
    results = _static_size(edit, node)
    if results is None:
        results = _compute(edit, node, values)
    if results is None:
        return False
    edit.remove([node])
    for name, array in zip(node.outputs, results, strict=False):
        if name:
            edit.define(name, array)
    return True


def _static_size(edit: Edit, node: Node) -> tuple[np.ndarray, ...] | None:
    """Contents of Shape and Size, which depend on the type of their operand only."""
    if node.op not in ("Shape", "Size"):
        return None
    found = edit.infer(node)[0]
    if found.content is None or not all(isinstance(dim, int) for dim in found.content):
        return None
    shape = tuple(dim for dim in found.shape if isinstance(dim, int))
    return (np.array(found.content, found.dtype.numpy).reshape(shape),)


def _compute(edit: Edit, node: Node, values: list[Value]) -> tuple[np.ndarray, ...] | None:
    arrays = [edit.constant(name) if name else None for name in node.inputs]
    present = [array for name, array in zip(node.inputs, arrays, strict=True) if name]
    if not present or any(array is None for array in present) or _is_symbolic(tuple(node.attrs.values())):
        return None
    given = sum(array.nbytes for array in present if array is not None)
    made = sum(value.dtype.nbytes(_elements(value)) for value in values)
    if made > max(GROWTH * given, GROWTH_BYTES):
        return None
    with np.errstate(all="ignore"):
        results = run_reference(op_named(node.op), node.attrs, arrays,
                                [edit.value(name).dtype if name else FLOAT32 for name in node.outputs])
    kept = tuple(np.ascontiguousarray(r).reshape(r.shape) for r in map(np.asarray, results))
    fits = all(not name or (a.shape == edit.value(name).shape and a.dtype == edit.value(name).dtype.numpy)
               for name, a in zip(node.outputs, kept, strict=False))
    return kept if fits else None


def _elements(value: Value) -> int:
    return math.prod(dim for dim in value.shape if isinstance(dim, int))


def _is_symbolic(attr: Attr) -> bool:
    return any(map(_is_symbolic, attr)) if isinstance(attr, tuple) else isinstance(attr, Expr)
