"""Folding `y = scale * f(x) + shift`, one pair per output channel, into the weights of a linear op f.

Shared by fuse_batch_norm and fuse_conv_scale. The arithmetic is done in float64 and rounded once.
"""

from __future__ import annotations

import numpy as np

from meta_infer.ir.graph import Node
from meta_infer.ops.attrs import bool_of, float_of, int_of
from meta_infer.passes.rewrite import Edit

LINEAR = ("Conv", "ConvTranspose", "Gemm")


def fold_scale_shift(edit: Edit, linear: Node, scale: np.ndarray, shift: np.ndarray, root: Node) -> bool:
    """Make `linear` compute `root`, its only reader, which is scale * linear + shift; both float64 [channels].

    Does nothing unless weight and bias are constants and the new ones are finite in their dtype.
    """
    weight = edit.constant(linear.inputs[1])
    if linear.op not in LINEAR or weight is None or edit.only_user(linear.outputs[0]) is not root:
        return False
    if weight.dtype.kind != "f" or edit.value(linear.inputs[1]).quant is not None:
        return False
    bias = _bias(edit, linear, len(scale))
    if bias is None:
        return False
    attrs = dict(linear.attrs)
    if linear.op == "Gemm":
        bias = bias * float_of(attrs, "beta", 1.0)
        attrs["beta"] = 1.0
    with np.errstate(all="ignore"):
        new_weight = _scaled(linear, weight.astype(np.float64), scale).astype(weight.dtype)
        new_bias = (bias * scale + shift).astype(weight.dtype)
    if not (np.isfinite(new_weight).all() and np.isfinite(new_bias).all()):
        return False
    edit.remove([linear, root])
    names = (edit.add_constant(new_weight, linear.inputs[1]), edit.add_constant(new_bias, f"{root.outputs[0]}_bias"))
    edit.emit(linear.op, (linear.inputs[0], *names), attrs, origins=[linear, root], output=root.outputs[0])
    return True


def channels(edit: Edit, linear: Node) -> int | None:
    """Output channels of a linear op, when known."""
    shape = edit.value(linear.outputs[0]).shape
    return shape[1] if len(shape) > 1 and isinstance(shape[1], int) else None


def per_channel(array: np.ndarray, rank: int, count: int) -> np.ndarray | None:
    """A constant that broadcasts along axis 1 only of a tensor of `rank`, as float64 [count]; None for others."""
    if array.dtype.kind != "f" or array.ndim > rank:
        return None
    shape = (1,) * (rank - array.ndim) + array.shape
    if any(size != 1 for axis, size in enumerate(shape) if axis != 1) or shape[1] not in (1, count):
        return None
    return np.broadcast_to(array.reshape(-1).astype(np.float64), (count,))


def _bias(edit: Edit, linear: Node, count: int) -> np.ndarray | None:
    """The bias as float64 [count]; zeros when absent, None when it is no constant or varies along other axes."""
    name = linear.inputs[2] if len(linear.inputs) > 2 else ""
    if not name:
        return np.zeros(count)
    array = edit.constant(name)
    if array is None:
        return None
    return per_channel(array, 2, count) if linear.op == "Gemm" else array.astype(np.float64)


def _scaled(linear: Node, weight: np.ndarray, scale: np.ndarray) -> np.ndarray:
    if linear.op == "Gemm":                                   # [out, in] when transposed, else [in, out]
        factor = scale[:, None] if bool_of(linear.attrs, "transB", False) else scale[None, :]
    elif linear.op == "Conv":                                 # [out, in / group, kernel...]
        factor = scale.reshape(-1, *[1] * (weight.ndim - 1))
    else:                                                     # ConvTranspose: [in, out / group, kernel...]
        group = int_of(linear.attrs, "group", 1)
        rows = np.repeat(scale.reshape(group, -1), weight.shape[0] // group, axis=0)
        factor = rows.reshape(*rows.shape, *[1] * (weight.ndim - 2))
    return np.asarray(weight * factor)
