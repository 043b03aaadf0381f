"""Forms that few exporters write and ONNX allows: computed weights, other dtypes, absent and repeated operands."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .random_graphs import Scope
from .random_moves import OPS, anything
from .random_ops import floats, ranked


def computed(s: Scope, *shape: int, scale: float = 1.0) -> str:
    """A weight that is known only at run time: a constant plus something tiny that depends on an input."""
    w = s.floats(*shape, scale=scale)
    x = s.pick(lambda a: floats(a) and a.size > 0)
    if x is None or s.constant_of(x) is not None:
        return w
    m = s.emit("ReduceMean", [x], keepdims=0)
    m = s.emit("Mul", [m, s.const(np.array(0.01, np.float32))]) if m else None
    return (s.emit("Add", [w, m]) if m else None) or w


def conv_computed(s: Scope) -> str | None:
    x = s.pick(ranked(3, 4))
    if x is None or len({a.shape[1] for a in s.find(x)}) != 1:
        return None
    channels, spatial = s.find(x)[0].shape[1], s.find(x)[0].ndim - 2
    k, out = s.rng.choice((1, 2, 3)), s.rng.choice((1, 5, 8))
    group = s.rng.choice((1, channels))
    if s.rng.random() < 0.25:
        return s.emit("ConvTranspose", [x, computed(s, channels, out, *[k] * spatial)], strides=[2] * spatial)
    w = computed(s, out * group, channels // group, *[k] * spatial, scale=0.3)
    inputs = [x, w, computed(s, out * group)] if s.rng.random() < 0.5 else [x, w]
    return s.emit("Conv", inputs, group=group, pads=[k // 2] * (2 * spatial))


def gemm_computed(s: Scope) -> str | None:
    a = s.pick(ranked(2))
    if a is None or len({v.shape[1] for v in s.find(a)}) != 1:
        return None
    depth, n = s.find(a)[0].shape[1], s.rng.choice((1, 5, 8, 16))
    tb = s.rng.choice((0, 1))
    b = computed(s, *((n, depth) if tb else (depth, n)), scale=0.4)
    c = s.pick(lambda v: floats(v) and v.ndim <= 2)
    return s.emit("Gemm", [a, b, c] if c and s.rng.random() < 0.6 else [a, b], transB=tb, alpha=0.5) \
        or s.emit("Gemm", [a, b], transB=tb)


def norm_computed(s: Scope) -> str | None:
    x = s.pick(ranked(2, 3, 4))
    if x is None or len({a.shape[1] for a in s.find(x)}) != 1:
        return None
    c = s.find(x)[0].shape[1]
    if s.rng.random() < 0.5 and s.opset >= 17 and len({a.shape[-1] for a in s.find(x)}) == 1:
        width = s.find(x)[0].shape[-1]
        return s.emit("LayerNormalization", [x, computed(s, width), computed(s, width)]) if width > 2 else None
    var = s.emit("Abs", [computed(s, c)])
    var = s.emit("Add", [var, s.const(np.array(0.5, np.float32))]) if var else None
    return s.emit("BatchNormalization", [x, computed(s, c), computed(s, c), computed(s, c), var]) if var else None


def integers(s: Scope) -> str | None:
    """Arithmetic of integer tensors, whatever their width."""
    x = s.pick(lambda a: a.dtype.kind in "iu")
    if x is None:
        return None
    dtype = s.find(x)[0].dtype
    op = s.rng.choice(("Neg", "Abs", "Sign", "Mul", "Sub", "Div", "Max", "Min", "Equal", "Greater", "ReduceMax",
                       "ReduceSum", "ReduceMean", "ArgMax", "Where", "Cast", "Expand", "Concat", "Relu"))
    if op in ("Neg", "Abs", "Sign", "Relu"):
        return s.emit(op, [x])
    if op in ("ReduceMax", "ReduceMean"):
        return s.emit(op, [x], keepdims=s.rng.choice((0, 1))) if all(a.size for a in s.find(x)) else None
    if op == "ReduceSum":
        return s.emit(op, [x], keepdims=1)
    if op == "ArgMax":
        last = {"select_last_index": s.rng.choice((0, 1))} if s.opset >= 12 else {}
        return s.emit(op, [x], axis=0, **last)
    if op == "Where":
        c = s.emit("Greater", [x, s.const(np.array(1, dtype))])
        return s.emit("Where", [c, x, s.const(np.array(3, dtype))]) if c else None
    if op == "Cast":
        return s.emit("Cast", [x], to=s.rng.choice((1, 2, 3, 5, 6, 7, 9, 11)))
    if op == "Expand":
        return s.emit("Expand", [x, s.ints(2, *[1] * s.find(x)[0].ndim)])
    if op == "Concat":
        return s.emit("Concat", [x, x], axis=0)
    return s.emit(op, [x, s.const(np.array(s.rng.choice((1, 2, 3)), dtype))])


def ties(s: Scope) -> str | None:
    """The first or last of equal extremes."""
    x = s.pick(lambda a: floats(a) and a.ndim >= 1 and a.size > 0)
    y = s.emit("Relu", [x]) if x and s.is_exact(x) else None
    y = s.emit("Sign", [y]) if y else None
    if y is None or s.opset < 12:
        return None
    return s.emit(s.rng.choice(("ArgMax", "ArgMin")), [y], axis=s.rng.randrange(s.find(y)[0].ndim),
                  select_last_index=s.rng.choice((0, 1)), keepdims=s.rng.choice((0, 1)))


def doubles(s: Scope) -> str | None:
    """Some work in float64."""
    x = s.pick(lambda a: floats(a) and a.ndim >= 2 and a.size > 0)
    x = s.emit("Cast", [x], to=11) if x else None
    if x is None:
        return None
    rank = s.find(x)[0].ndim
    op = s.rng.choice(("MatMul", "Softmax", "ReduceMean", "Transpose", "Concat", "Exp", "Gemm", "Slice", "LogSoftmax",
                       "BatchNormalization", "MaxPool", "GlobalAveragePool", "Where", "Pad"))
    depth = {a.shape[-1] for a in s.find(x)}
    if op in ("MatMul", "Gemm") and len(depth) == 1 and (op == "MatMul" or rank == 2):
        y = s.emit(op, [x, s.floats(depth.pop(), 5, scale=0.3, dtype=np.float64)])
    elif op in ("Softmax", "LogSoftmax"):
        y = s.emit(op, [x], axis=rank - 1)
    elif op == "Concat":
        y = s.emit(op, [x, x], axis=1)
    elif op == "Slice":
        y = s.emit(op, [x, s.ints(1), s.ints(9), s.ints(rank - 1)])
    elif op == "BatchNormalization" and len({a.shape[1] for a in s.find(x)}) == 1:
        c = s.find(x)[0].shape[1]
        y = s.emit(op, [x, *(s.floats(c, positive=True, dtype=np.float64) for _ in range(4))])
    elif op == "MaxPool":
        y = s.emit(op, [x], kernel_shape=[2] * (rank - 2)) if rank in (3, 4) and min(
            min(a.shape[2:]) for a in s.find(x)) > 1 else None
    elif op == "Where":
        c = s.emit("Less", [s.const(np.array(1.0)), s.const(np.array(2.0))])
        y = s.emit(op, [c, x, x]) if c else None
    elif op == "Pad":
        y = s.emit(op, [x, s.ints(*[1] * (2 * rank))])
    else:
        y = s.emit(op, [x]) if op in ("ReduceMean", "Transpose", "Exp", "GlobalAveragePool") else None
    return s.emit("Cast", [y], to=1) if y and s.rng.random() < 0.7 else y


def lstm_states(s: Scope) -> str | None:
    x = s.pick(lambda a: ranked(3)(a) and a.shape[0] <= 11)
    if x is None or len({a.shape[2] for a in s.find(x)}) != 1 or len({a.shape[1] for a in s.find(x)}) != 1:
        return None
    batch, width, hidden = s.find(x)[0].shape[1], s.find(x)[0].shape[2], s.rng.choice((2, 8, 9))
    inputs = [x, s.floats(1, 4 * hidden, width, scale=0.3), s.floats(1, 4 * hidden, hidden, scale=0.3), "", "",
              computed(s, 1, batch, hidden), s.rng.choice(("", computed(s, 1, batch, hidden)))]
    return s.emit("LSTM", inputs, outputs=3, hidden_size=hidden, direction=s.rng.choice(("forward", "reverse")))


def pad_axes(s: Scope) -> str | None:
    x = s.pick(lambda a: floats(a) and a.ndim >= 1 and a.size > 0)
    if x is None or s.opset < 18:
        return None
    axis = s.rng.randrange(s.find(x)[0].ndim)
    return s.emit("Pad", [x, s.ints(1, 2), "", s.ints(axis)])


def upsample_to(s: Scope) -> str | None:
    """Resize to the size of another value, as feature pyramids do."""
    x, y = s.pick(ranked(4)), s.pick(ranked(4))
    if x is None or y is None or s.opset < 11:
        return None
    shape = s.emit("Shape", [y])
    wanted = s.emit("Slice", [shape, s.ints(2), s.ints(4)]) if shape else None
    own = s.emit("Shape", [x])
    first = s.emit("Slice", [own, s.ints(0), s.ints(2)]) if own else None
    sizes = s.emit("Concat", [first, wanted], axis=0) if first and wanted else None
    roi = "" if s.opset >= 13 else s.const(np.zeros(0, np.float32))
    empty = "" if s.opset >= 13 else s.const(np.zeros(0, np.float32))
    mode = s.rng.choice(("nearest", "linear"))
    extra = {"nearest_mode": "floor"} if mode == "nearest" else {}
    return s.emit("Resize", [x, roi, empty, sizes], mode=mode, coordinate_transformation_mode="asymmetric",
                  **extra) if sizes else None


def expand_to(s: Scope) -> str | None:
    """Expand, ConstantOfShape or Reshape by the shape of another value."""
    x, y = s.pick(floats), s.pick(anything)
    if x is None or y is None:
        return None
    shape = s.emit("Shape", [y])
    if shape is None:
        return None
    return s.emit(s.rng.choice(("Expand", "Reshape", "ConstantOfShape")), [x, shape]) or \
        s.emit("ConstantOfShape", [shape])


def unusual(s: Scope) -> str | None:
    """Nodes with one operand where two are usual, operands twice, and axes that are no axes."""
    x = s.pick(lambda a: floats(a) and a.ndim >= 1 and a.size > 0)
    if x is None:
        return None
    kind = s.rng.choice(("sum", "max", "sub", "div", "where", "noop", "slice", "dropout", "isnan", "group"))
    if kind in ("sum", "max"):
        return s.emit(kind.capitalize(), [x] * s.rng.choice((1, 2, 3)))
    if kind == "sub":
        return s.emit("Sub", [x, x])
    if kind == "div":
        e = s.emit("Exp", [x])
        return s.emit("Div", [e, e]) if e else None
    if kind == "where":
        b = s.emit("Cast", [x], to=9) if s.is_exact(x) else None
        return s.emit("Where", [b, x, x]) if b else None
    if kind == "noop" and s.opset >= 18:
        return s.emit("ReduceSum", [x], noop_with_empty_axes=1)
    if kind == "slice":
        return s.emit("Slice", [x, s.ints(1), s.ints(2)])
    if kind == "dropout":
        return s.emit("Dropout", [x])
    if kind == "isnan":
        b = s.emit("IsNaN", [x])
        return s.emit("Where", [b, s.const(np.array(0, np.float32)), x]) if b else None
    return None


ALL: tuple[Callable[[Scope], object], ...] = (
    *OPS, *[conv_computed] * 3, *[gemm_computed] * 2, *[norm_computed] * 2, *[integers] * 4, ties, *[doubles] * 3,
    *[lstm_states] * 2, pad_axes, *[upsample_to] * 2, *[expand_to] * 2, *[unusual] * 3,
)
