"""The operands of an integer product: 8-bit activations with one zero point, constant weights without theirs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.graph import Value
from meta_infer.ir.group import Group
from meta_infer.ir.loop import INDEX, Buffer, Expr, Type, cast, const
from meta_infer.ir.shapes import product
from meta_infer.kernels.int8.dot_path import DotPath, dot_paths
from meta_infer.support.dtypes import INT8, INT32, UINT8


@dataclass(frozen=True)
class Int8Operands:
    """`zero` is the zero point of x: a number, or the value that holds it. `weights` are int16, zero points taken off.

    `extras` are the group's other inputs, which its epilogue reads, the value of the zero point among them.
    """

    x: Value
    weight: Value
    weights: np.ndarray
    zero: int | Value
    extras: tuple[str, ...]
    axis: int                                            # of the weights, along which products are summed

    def zero_point(self, b: Builder, buffers: Mapping[str, Buffer]) -> Expr:
        """The zero point as int32."""
        if isinstance(self.zero, int):
            return const(self.zero, Type(INT32))
        return b.let(cast(b.load(buffers[self.zero.name], const(0, INDEX)), INT32), "zero")

    def paths(self, profile: Profile) -> tuple[DotPath, ...]:
        """The ways in which these operands can be multiplied, the quickest first."""
        return tuple(path for path in dot_paths(profile) if path.takes(self.weights, self.axis))


def int8_operands(group: Group) -> Int8Operands | None:
    """Operands of a ConvInteger or MatMulInteger group; None for weights that are no constants, several zero points
    of the activations, or a prologue."""
    x, weight, zero, points = (group.in_value(i) for i in range(4))
    if group.prologue or x is None or weight is None or x.dtype not in (INT8, UINT8):
        return None
    if weight.name not in group.constants or 0 in weight.shape:
        return None
    if points is not None and points.name not in group.constants:
        return None
    weights = group.constants[weight.name].astype(np.int16)
    if points is not None:
        weights = weights - group.constants[points.name].astype(np.int16)
    point: int | Value = 0
    if zero is not None:
        if product(zero.shape) != 1:
            return None
        known = group.constants.get(zero.name)
        point = zero if known is None else int(known.reshape(-1)[0])
    read = {name for node in group.epilogue for name in node.inputs}
    needed = read | ({point.name} if isinstance(point, Value) else set())
    own = {value.name for value in (x, weight, zero, points) if value is not None}
    extras = tuple(name for name in group.inputs if name in needed or name not in own)
    axis = 1 if group.anchor.op == "ConvInteger" else max(0, weights.ndim - 2)
    return Int8Operands(x, weight, weights, point, extras, axis)
