"""Ops of random graphs that are rarer in models: scatters, quantisation, integers of every width, recurrences."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import TensorProto as T

from .random_found import FOUND, distinct
from .random_graphs import Scope
from .random_ops import away_from, floats, ranked
from .random_rare import ALL

_INTEGERS = {np.int8: T.INT8, np.uint8: T.UINT8, np.int16: T.INT16, np.int32: T.INT32, np.uint32: T.UINT32,
             np.int64: T.INT64}


def drawn(s: Scope) -> np.random.Generator:
    return np.random.default_rng(s.rng.getrandbits(32))


def one_size(s: Scope, wanted: Callable[[np.ndarray], bool]) -> str | None:
    """A value of one shape at all points."""
    x = s.pick(wanted)
    return x if x is not None and len({a.shape for a in s.find(x)}) == 1 else None


def scatter_elements(s: Scope) -> str | None:
    x = one_size(s, lambda a: a.dtype in (np.float32, np.int64) and a.ndim >= 1 and a.size > 0)
    if x is None:
        return None
    shape, dtype = s.find(x)[0].shape, s.find(x)[0].dtype
    axis, random = s.rng.randrange(len(shape)), drawn(s)
    sizes = [random.integers(1, d + 1) for d in shape]
    order = random.permuted(np.broadcast_to(np.arange(shape[axis]).reshape(
        [-1 if i == axis else 1 for i in range(len(shape))]), [d if i == axis else sizes[i] for i, d in
                                                               enumerate(shape)]), axis=axis)
    index = order[tuple(slice(0, n) for n in sizes)] - (shape[axis] if s.rng.random() < 0.2 else 0)
    updates = s.floats(*sizes) if dtype.kind == "f" else s.const(random.integers(0, 5, sizes))
    how = {"reduction": s.rng.choice(("none", "add", "mul", *(("max", "min") if s.opset >= 18 else ())))} \
        if s.opset >= 16 else {}
    return s.emit("ScatterElements", [x, s.const(index), updates], axis=axis, **how)


def scatter_nd(s: Scope) -> str | None:
    x = one_size(s, lambda a: a.dtype in (np.float32, np.int64) and a.ndim >= 1 and a.size > 0)
    if x is None:
        return None
    shape, random = s.find(x)[0].shape, drawn(s)
    depth = s.rng.randint(1, len(shape))
    places = np.array([[i] for i in random.permutation(shape[0])[:3]])
    places = np.concatenate([places, *(random.integers(0, d, (len(places), 1)) for d in shape[1:depth])], 1)
    rest = (len(places), *shape[depth:])
    updates = s.floats(*rest) if floats(s.find(x)[0]) else s.const(random.integers(0, 5, rest))
    how = {"reduction": s.rng.choice(("none", "add", "mul"))} if s.opset >= 16 else {}
    return s.emit("ScatterND", [x, s.const(places), updates], **how)


def gather_nd(s: Scope) -> str | None:
    x = s.pick(lambda a: a.ndim >= 1 and a.size > 0)
    if x is None:
        return None
    shape = [min(c) for c in zip(*(a.shape for a in s.find(x)), strict=True)]
    depth, rows = s.rng.randint(1, len(shape)), s.rng.choice(((3,), (2, 2), (1,)))
    index = np.stack([drawn(s).integers(-d, d, rows) for d in shape[:depth]], -1)
    return s.emit("GatherND", [x, s.const(index)], exact=s.is_exact(x))


def one_hot(s: Scope) -> str | None:
    x = s.pick(lambda a: a.dtype == np.int64 and 0 < a.size < 200)
    if x is None:
        return None
    depth = s.const(np.array(s.rng.choice((1, 3, 5))))
    values = s.const(np.array(s.rng.choice(((0, 1), (-1, 2))), s.rng.choice((np.float32, np.int64))))
    return s.emit("OneHot", [x, depth, values], axis=s.rng.choice((-1, 0)), exact=True)


def einsum(s: Scope) -> str | None:
    x = s.pick(lambda a: floats(a) and 1 <= a.ndim <= 4 and a.size > 0)
    if x is None or s.opset < 12:
        return None
    rank = s.find(x)[0].ndim
    labels = "abcd"[:rank]
    kind = s.rng.choice(("permute", "sum", "matmul", "outer"))
    if kind == "permute":
        return s.emit("Einsum", [x], equation=f"{labels}->{''.join(s.rng.sample(labels, rank))}")
    if kind == "sum":
        return s.emit("Einsum", [x], equation=f"{labels}->{labels[:s.rng.randint(0, rank)]}")
    last = {a.shape[-1] for a in s.find(x)}
    if kind == "matmul" and len(last) == 1:
        w = s.floats(last.pop(), 3, scale=0.3)
        return s.emit("Einsum", [x, w], equation=f"...{labels[-1]},{labels[-1]}z->...z" if rank > 1 else "a,az->z")
    return s.emit("Einsum", [x, s.floats(2)], equation=f"{labels},z->z{labels}")


def resize_odd(s: Scope) -> str | None:
    """Resize of any rank, along some axes, to a size, antialiased or cropped."""
    x = one_size(s, lambda a: floats(a) and a.ndim in (3, 4) and a.size > 0)
    if x is None or s.opset < 13:
        return None
    shape, rng = s.find(x)[0].shape, s.rng
    attrs: dict[str, object] = {"mode": rng.choice(("nearest", "linear", "cubic"))}
    attrs["coordinate_transformation_mode"] = rng.choice(("half_pixel", "asymmetric", "align_corners"))
    if attrs["mode"] == "nearest":
        attrs.update(coordinate_transformation_mode="asymmetric", nearest_mode=rng.choice(("floor", "ceil")))
    if attrs["mode"] == "cubic":
        attrs["exclude_outside"] = rng.choice((0, 1))
        if len(shape) != 4:
            return None
    sizes = [*shape[:2], *(rng.randint(1, 8) for _ in shape[2:])]
    if s.opset >= 18 and rng.random() < 0.5:
        axes = list(range(2, len(shape)))
        if attrs["mode"] != "nearest" and len(shape) == 4 and rng.random() < 0.5:
            attrs["antialias"] = 1
        return s.emit("Resize", [x, "", "", s.ints(*sizes[2:])], axes=axes, **attrs)
    return s.emit("Resize", [x, "", "", s.ints(*sizes)], **attrs)


def grid_sample(s: Scope) -> str | None:
    x = one_size(s, ranked(4))
    if x is None or s.opset < 16:
        return None
    n = s.find(x)[0].shape[0]
    grid = s.const(drawn(s).random((n, 3, 4, 2), np.float32) * 2.4 - 1.2)
    modes = ("linear", "cubic") if s.opset >= 20 else ("bilinear", "bicubic")
    return s.emit("GridSample", [x, grid], mode=s.rng.choice(modes), align_corners=s.rng.choice((0, 1)),
                  padding_mode=s.rng.choice(("zeros", "border", "reflection")))


def recurrence(s: Scope) -> str | None:
    """RNN, GRU or LSTM with what their attributes offer."""
    x, rng = one_size(s, lambda a: floats(a) and 0 < a.size <= 240), s.rng
    if x is None:
        return None
    if s.find(x)[0].ndim != 3:
        width = next(n for n in (4, 3, 2, 1) if s.find(x)[0].size % n == 0)
        x = s.emit("Reshape", [x, s.ints(-1, s.find(x)[0].size // width if s.find(x)[0].size > 40 else 1, width)])
    if x is None or s.find(x)[0].shape[0] > 40:
        return None
    steps, batch, width = s.find(x)[0].shape
    op, gates = rng.choice((("RNN", 1), ("GRU", 3), ("LSTM", 4)))
    hidden, direction = rng.choice((1, 4, 9)), rng.choice(("forward", "reverse", "bidirectional"))
    n = 2 if direction == "bidirectional" else 1
    inputs = [x, s.floats(n, gates * hidden, width, scale=0.3), s.floats(n, gates * hidden, hidden, scale=0.3),
              rng.choice(("", s.floats(n, 2 * gates * hidden)))]
    lengths = drawn(s).integers(1, steps + 1, batch).astype(np.int32)
    inputs.append(s.const(lengths) if rng.random() < 0.4 else "")
    if rng.random() < 0.5:
        inputs.append(s.floats(n, batch, hidden))
        if op == "LSTM":
            inputs.append(s.floats(n, batch, hidden))
            if rng.random() < 0.5:
                inputs.append(s.floats(n, 3 * hidden, scale=0.3))
    attrs: dict[str, object] = {"hidden_size": hidden, "direction": direction}
    if rng.random() < 0.3:
        attrs["clip"] = 0.5
    if op == "GRU":
        attrs["linear_before_reset"] = rng.choice((0, 1))
    if op == "LSTM" and rng.random() < 0.2:
        attrs["input_forget"] = 1
    if op == "RNN" and rng.random() < 0.5:
        attrs["activations"] = [rng.choice(("Relu", "Tanh", "Sigmoid"))] * n
    return s.emit(op, inputs, outputs=rng.choice((1, 2)), **attrs)


def quantize(s: Scope) -> str | None:
    """QuantizeLinear of what lies away from the middle between two steps, and often back."""
    x = s.pick(lambda a: floats(a) and a.size > 0)
    if x is None:
        return None
    rank, scale = s.find(x)[0].ndim, np.float32(s.rng.choice((0.25, 0.5, 0.125)))
    if not s.is_exact(x) and not all(away_from(a / scale - 0.5, lambda v: v - np.round(v)) for a in s.find(x)):
        return None
    dtype = s.rng.choice((np.int8, np.uint8))
    axis = s.rng.randrange(rank) if rank and s.opset >= 13 and s.rng.random() < 0.4 else None
    sizes = {a.shape[axis] for a in s.find(x)} if axis is not None else set()
    shape = (sizes.pop(),) if len(sizes) == 1 else ()
    scales = s.const(np.full(shape, scale))
    zero = s.const(np.full(shape, s.rng.choice((0, 3)), dtype))
    attrs = {"axis": axis} if shape else {}
    q = s.emit("QuantizeLinear", [x, scales, zero], **attrs)
    return s.emit("DequantizeLinear", [q, scales, zero], exact=True, **attrs) if q and s.rng.random() < 0.7 else q


def quantized_product(s: Scope) -> str | None:
    """MatMulInteger of small integers."""
    x = s.pick(lambda a: a.dtype in (np.int8, np.uint8) and a.ndim >= 1 and a.size > 0)
    if x is None or len({a.shape[-1] for a in s.find(x)}) != 1:
        return None
    dtype = s.find(x)[0].dtype
    w = s.const(drawn(s).integers(-2, 3, (s.find(x)[0].shape[-1], 4)).astype(np.int8))
    zeros = [s.const(np.array(2, dtype))] if s.rng.random() < 0.5 else []
    return s.emit("MatMulInteger", [x, w, *zeros])


def whole_numbers(s: Scope) -> str | None:
    """Arithmetic of narrow and unsigned integers: shifts, bitwise ops, sums, comparisons, casts."""
    x = s.pick(lambda a: a.dtype in (np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64))
    if x is None or s.rng.random() < 0.3:
        y = s.pick(lambda a: a.dtype.kind in "iub" and a.size < 2000 and (a.size == 0 or a.min() >= 0))
        if y is not None:
            return s.emit("Cast", [y], to=s.rng.choice(list(_INTEGERS.values())))
        y = s.pick(lambda a: floats(a) and a.size < 2000)
        to = s.rng.choice((T.INT8, T.INT16, T.INT32, T.INT64))
        return s.emit("Cast", [y], to=to) if y and s.is_exact(y) else None
    dtype = s.find(x)[0].dtype
    other = s.const(drawn(s).integers(0, 4, s.rng.choice(((), (1,)))).astype(dtype))
    kinds = ["Add", "Sub", "Mul", "Max", "Min", "Greater", "LessOrEqual", "Where", "Abs", "Neg", "Transpose", "Mod"]
    kinds += ["BitShift"] * 2 if dtype.kind == "u" and s.opset >= 11 else []
    kinds += ["BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"] if s.opset >= 18 else []
    op = s.rng.choice(kinds)
    if op == "BitShift":
        return s.emit(op, [x, other], direction=s.rng.choice(("LEFT", "RIGHT")))
    if op in ("Abs", "Neg", "BitwiseNot", "Transpose"):
        return s.emit(op, [x])
    if op == "Where":
        c = s.emit("Equal", [x, other])
        return s.emit(op, [c, x, other]) if c else None
    if op == "Mod":
        other = s.const(np.array(3, dtype))
        return s.emit(op, [x, other], fmod=s.rng.choice((0, 1)))
    return s.emit(op, s.rng.sample([x, other], 2))


def trigonometry(s: Scope) -> str | None:
    x = s.pick(lambda a: floats(a) and a.size > 0)
    if x is None:
        return None
    op = s.rng.choice(("Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh", "Celu", "Mish",
                       "ThresholdedRelu", "Shrink", "Hardmax", "LpNormalization", "ReduceL2", "ReduceLogSumExp"))
    if op in ("Asin", "Acos", "Atanh"):
        x = s.emit("Tanh", [x])
        x = s.emit("Mul", [x, s.const(np.array(0.9, np.float32))]) if x else None
    elif op == "Acosh":
        x = s.emit("Exp", [x])
        x = s.emit("Add", [x, s.const(np.array(1.1, np.float32))]) if x else None
    elif op == "Tan":
        x = s.emit("Tanh", [x])
    elif op == "Hardmax" and not distinct(s, x):
        return None
    elif op in ("ThresholdedRelu", "Shrink") and not all(away_from(np.abs(a), lambda v: v - 0.5) for a in s.find(x)):
        return None
    attrs = {"ThresholdedRelu": {"alpha": 0.5}, "Shrink": {"lambd": 0.5, "bias": 0.1}}.get(op, {})
    return s.emit(op, [x], **attrs) if x else None


def read_twice(s: Scope) -> str | None:
    """A product whose bare result is read beside what would be fused with it."""
    x = s.pick(ranked(4))
    if x is None or len({a.shape[1] for a in s.find(x)}) != 1:
        return None
    y = s.emit("Conv", [x, s.floats(8, s.find(x)[0].shape[1], 1, 1, scale=0.3)])
    act = s.emit(s.rng.choice(("Relu", "Sigmoid", "Tanh")), [y]) if y else None
    other = s.emit(s.rng.choice(("Neg", "Exp", "ReduceMean", "Transpose")), [y]) if y else None
    both = s.emit("Add", [act, y]) if act and other and y else None
    return both


def pooled(s: Scope) -> str | None:
    """MaxPool with Indices, LpPool, and auto_pad."""
    x = s.pick(lambda a: ranked(3, 4)(a) and min(a.shape[2:]) >= 3)
    if x is None:
        return None
    spatial = s.find(x)[0].ndim - 2
    attrs: dict[str, object] = {"kernel_shape": [s.rng.choice((2, 3))] * spatial,
                                "strides": [s.rng.choice((1, 2))] * spatial}
    op = s.rng.choice(("MaxPool", "LpPool", "AveragePool", "MaxPool"))
    if s.rng.random() < 0.5 and op != "LpPool":
        attrs["auto_pad"] = s.rng.choice(("SAME_UPPER", "SAME_LOWER", "VALID"))
    if op == "MaxPool" and distinct(s, x):
        return s.emit(op, [x], outputs=2, **attrs)
    return s.emit(op, [x], **attrs)


def depthwise_lrn(s: Scope) -> str | None:
    x = s.pick(ranked(3, 4))
    if x is None:
        return None
    op = s.rng.choice(("LRN", "MeanVarianceNormalization", "GroupNormalization", "ReverseSequence"))
    if op == "LRN":
        return s.emit(op, [x], size=s.rng.choice((1, 3, 5)), alpha=0.1, beta=0.75)
    if op == "ReverseSequence":
        steps, batch = {a.shape[0] for a in s.find(x)}, {a.shape[1] for a in s.find(x)}
        if len(batch) != 1:
            return None
        lengths = drawn(s).integers(1, min(steps) + 1, batch.pop())
        return s.emit(op, [x, s.const(lengths)], time_axis=0, batch_axis=1, exact=s.is_exact(x))
    if op == "GroupNormalization":
        return None
    return s.emit(op, [x], axes=[0, *range(2, s.find(x)[0].ndim)]) if s.find(x)[0].shape[-1] > 2 else None


WIDE: tuple[Callable[[Scope], object], ...] = (
    *[scatter_elements] * 2, *[scatter_nd] * 2, gather_nd, one_hot, *[einsum] * 2, *[resize_odd] * 2, grid_sample,
    *[recurrence] * 3, *[quantize] * 3, quantized_product, *[whole_numbers] * 5, *[trigonometry] * 3, *[read_twice] * 2,
    *[pooled] * 2, depthwise_lrn,
)
EVERYTHING = (*ALL, *WIDE * 2, *FOUND * 3)
"""Every op kind: about as many draws from those of the last two files as from the common ones."""
