"""Ops of random graphs that compute: each function adds one node or a small pattern to a scope, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from onnx import TensorProto as T

from .random_graphs import Scope


def ranked(*ranks: int, dtype: type = np.float32) -> Callable[[np.ndarray], bool]:
    return lambda a: a.dtype == dtype and a.ndim in ranks and a.size > 0


def floats(a: np.ndarray) -> bool:
    return a.dtype == np.float32


def away_from(a: np.ndarray, jumps: Callable[[np.ndarray], np.ndarray]) -> bool:
    return a.size == 0 or float(np.abs(jumps(a.astype(np.float64))).min()) > 1e-2


UNARY = ("Relu", "Sigmoid", "Tanh", "Exp", "Erf", "Neg", "Abs", "Softplus", "Sin", "Cos", "LeakyRelu", "Elu", "Selu",
         "HardSigmoid", "Identity", "HardSwish", "Gelu", "Softsign", "Sqrt", "Log", "Reciprocal")
BINARY = ("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow")


def unary(s: Scope) -> str | None:
    op = s.rng.choice(UNARY)
    x = s.pick(lambda a: a.dtype in (np.float32, np.float64) if s.rng.random() < 0.9 else True)
    if x is None or (op == "HardSwish" and s.opset < 14) or (op == "Gelu" and s.opset < 20):
        return None
    if op in ("Sqrt", "Log", "Reciprocal") and not all((a > 0.05).all() for a in s.find(x)):
        x = s.emit("Abs", [x])
        x = s.emit("Add", [x, s.const(np.array(0.5, s.find(x)[0].dtype))]) if x else None
    attrs = {"LeakyRelu": {"alpha": 0.1}, "Gelu": {"approximate": s.rng.choice(("none", "tanh"))}}.get(op, {})
    return s.emit(op, [x], **attrs) if x else None


def binary(s: Scope) -> str | None:
    """Two values of the pool where they broadcast, else a value and a constant of a shape that does."""
    op = s.rng.choice(BINARY)
    a = s.pick(lambda v: v.dtype in (np.float32, np.float64, np.int64, np.int32))
    if a is None:
        return None
    arrays = s.find(a)
    dtype = arrays[0].dtype
    b = s.pick(lambda v: v.dtype == dtype) if s.rng.random() < 0.6 else None
    if b is not None and not all(_fits(p, q) for p, q in zip(arrays, s.find(b), strict=True)):
        b = None
    if b is None:
        shape = _broadcast_shape(s, arrays)
        if dtype.kind == "f":
            b = s.floats(*shape, positive=op == "Div", dtype=dtype.type)
        else:
            b = s.const(np.random.default_rng(s.rng.getrandbits(32)).integers(1, 4, shape).astype(dtype))
    if op == "Div" and not all((np.abs(v) > 0.2).all() for v in s.find(b)):
        return None
    if op == "Pow":
        if dtype.kind != "f":
            return None
        b = s.const(np.array(s.rng.choice((2.0, 3.0, 0.5, 1.0, -1.0)), dtype))
        if not all((v > 0.1).all() for v in arrays):
            b = s.const(np.array(s.rng.choice((2.0, 3.0)), dtype))
    return s.emit(op, [a, b] if s.rng.random() < 0.7 or op in ("Div", "Pow") else [b, a])


def _fits(a: np.ndarray, b: np.ndarray) -> bool:
    try:
        return bool(np.prod(np.broadcast_shapes(a.shape, b.shape)) <= 4000)
    except ValueError:
        return False


def _broadcast_shape(s: Scope, arrays: Sequence[np.ndarray]) -> list[int]:
    """A shape that broadcasts with all arrays: their fixed sizes or ones, perhaps with fewer or more axes."""
    sizes = list(zip(*(v.shape for v in arrays), strict=True))
    shape = [c[0] if len(set(c)) == 1 and s.rng.random() < 0.6 else 1 for c in sizes]
    if shape and s.rng.random() < 0.5:
        shape = shape[s.rng.randint(0, len(shape)):]
    elif s.rng.random() < 0.05 and len(shape) < 5:
        shape = [2, *([1] * (len(arrays[0].shape) - len(shape))), *shape]
    return shape


def variadic(s: Scope) -> str | None:
    op = s.rng.choice(("Sum", "Max", "Min", "Mean"))
    a = s.pick(floats)
    if a is None:
        return None
    shapes = [v.shape for v in s.find(a)]
    others = [n for n in s.visible() if [v.shape for v in s.find(n)] == shapes and floats(s.find(n)[0])]
    return s.emit(op, [a, *s.rng.choices(others, k=s.rng.randint(0, 3))])


def prelu(s: Scope) -> str | None:
    x = s.pick(ranked(2, 3, 4))
    if x is None:
        return None
    c = {v.shape[1] for v in s.find(x)}
    if len(c) != 1 or s.rng.random() < 0.3:
        return s.emit("PRelu", [x, s.floats(1)])
    return s.emit("PRelu", [x, s.floats(c.pop(), *[1] * (s.find(x)[0].ndim - 2))])


def clip(s: Scope) -> str | None:
    x = s.pick(lambda a: a.dtype in (np.float32, np.int64))
    if x is None:
        return None
    dtype = s.find(x)[0].dtype
    if dtype == np.int64 and s.opset < 12:
        return None
    low, high = s.const(np.array(s.rng.choice((-1, 0)), dtype)), s.const(np.array(s.rng.choice((1, 6)), dtype))
    scalar = s.pick(lambda a: a.dtype == dtype and a.ndim == 0)
    if scalar and s.rng.random() < 0.4:
        low = scalar
        return s.emit("Clip", [x, low])
    return s.emit("Clip", [x, *s.rng.choice(([low, high], [low], ["", high]))])


def rounding(s: Scope) -> str | None:
    op = s.rng.choice(("Floor", "Ceil", "Round", "Sign"))
    x = s.pick(floats)
    if x is None or s.in_loop:
        return None
    jumps = {"Sign": lambda a: a, "Round": lambda a: a - 0.5 - np.round(a - 0.5)}.get(op, lambda a: a - np.round(a))
    if not (s.is_exact(x) or all(away_from(a, jumps) for a in s.find(x))):
        return None
    return s.emit(op, [x], exact=True)


def modulo(s: Scope) -> str | None:
    if s.rng.random() < 0.3 and not s.in_loop:
        x = s.pick(floats)
        if x is None or not (s.is_exact(x) or all(away_from(a / 1.5, lambda v: v - np.round(v)) for a in s.find(x))):
            return None
        return s.emit("Mod", [x, s.const(np.array(1.5, np.float32))], fmod=1)
    x = s.pick(lambda a: a.dtype in (np.int64, np.int32))
    if x is None:
        return None
    divisor = s.const(np.array(s.rng.choice((2, 3, -3)), s.find(x)[0].dtype))
    return s.emit("Mod", [x, divisor], fmod=s.rng.choice((0, 1)))


def compare(s: Scope) -> str | None:
    op = s.rng.choice(("Less", "Greater", "Equal", "LessOrEqual", "GreaterOrEqual"))
    a = s.pick(lambda v: v.dtype in (np.float32, np.int64, np.int32))
    if a is None or (op.endswith("OrEqual") and s.opset < 12):
        return None
    arrays = s.find(a)
    dtype = arrays[0].dtype
    b = s.pick(lambda v: v.dtype == dtype)
    if b is None or s.rng.random() < 0.5 or not all(_fits(p, q) for p, q in zip(arrays, s.find(b), strict=True)):
        b = s.const(np.array(0.25 if dtype.kind == "f" else 1, dtype))
    if dtype.kind == "f" and not (s.is_exact(a) and s.is_exact(b)):
        apart = all(away_from(p - q, lambda v: v) for p, q in zip(arrays, s.find(b), strict=True))
        if s.in_loop or not apart:
            return None
    return s.emit(op, [a, b])


def logic(s: Scope) -> str | None:
    a = s.pick(lambda v: v.dtype == bool)
    if a is None:
        return None
    if s.rng.random() < 0.4:
        return s.emit("Not", [a])
    b = s.pick(lambda v: v.dtype == bool)
    if not all(_fits(p, q) for p, q in zip(s.find(a), s.find(b or a), strict=True)):
        return None
    return s.emit(s.rng.choice(("And", "Or", "Xor")), [a, b or a])


def where(s: Scope) -> str | None:
    c = s.pick(lambda v: v.dtype == bool)
    x = s.pick(lambda v: v.dtype in (np.float32, np.int64, np.int32, bool))
    if c is None or x is None or not all(_fits(p, q) for p, q in zip(s.find(c), s.find(x), strict=True)):
        return None
    y = s.pick(lambda v: v.dtype == s.find(x)[0].dtype)
    if y is None or not all(_fits(p, q) for p, q in zip(s.find(x), s.find(y), strict=True)):
        y = s.const(np.array(1, s.find(x)[0].dtype))
    return s.emit("Where", s.rng.choice(([c, x, y], [c, y, x])))


def cast(s: Scope) -> str | None:
    x = s.pick(lambda v: True)
    if x is None:
        return None
    to = s.rng.choice((T.FLOAT, T.FLOAT, T.INT64, T.INT32, T.BOOL, T.DOUBLE, T.UINT8, T.INT8))
    source = s.find(x)[0].dtype
    if source.kind == "f" and to not in (T.FLOAT, T.DOUBLE) and not s.is_exact(x):
        if s.in_loop or not all(away_from(a, lambda v: v - np.round(v)) for a in s.find(x)):
            return None
    return s.emit("Cast", [x], to=to, exact=s.is_exact(x))


def conv(s: Scope) -> str | None:
    x = s.pick(ranked(3, 4))
    if x is None or len({a.shape[1] for a in s.find(x)}) != 1:
        return None
    rng, shape = s.rng, s.find(x)[0].shape
    smallest = [min(a.shape[i] for a in s.find(x)) for i in range(2, len(shape))]
    channels = shape[1]
    kind = rng.choice(("dense", "dense", "point", "depthwise", "grouped"))
    kernel = [1 if kind == "point" else rng.choice((1, 2, 3, 3, 5)) for _ in smallest]
    if rng.random() < 0.6:
        kernel = [kernel[0]] * len(kernel)
    dilations = [rng.choice((1, 1, 1, 2)) for _ in smallest]
    pads = [rng.randint(0, max(k - 1, 0)) for k in kernel] * 2
    if rng.random() < 0.2:
        pads = [rng.randint(0, 2) for _ in pads]
    group = 1
    if kind == "depthwise":
        group = channels
    elif kind == "grouped":
        group = rng.choice([g for g in (1, 2, 4, 8, 13) if channels % g == 0])
    out = rng.choice((1, 3, 8, 16, 17)) * (group if group > 1 else 1)
    if kind == "depthwise":
        out = channels * rng.choice((1, 1, 1, 2))
    if out > 64:
        out = group
    per = channels // group
    w = s.floats(out, per, *kernel, scale=(per * int(np.prod(kernel))) ** -0.5)
    inputs = [x, w] if rng.random() < 0.3 else [x, w, s.floats(out)]
    attrs: dict[str, object] = {"kernel_shape": kernel, "dilations": dilations, "group": group,
                                "strides": [rng.choice((1, 1, 1, 2, 3)) for _ in smallest]}
    if rng.random() < 0.15:
        attrs |= {"auto_pad": rng.choice(("SAME_UPPER", "SAME_LOWER", "VALID")), "dilations": [1] * len(kernel)}
    else:
        attrs["pads"] = pads
    return s.emit("Conv", inputs, **attrs)


def conv_transpose(s: Scope) -> str | None:
    x = s.pick(ranked(3, 4))
    if x is None or len({a.shape[1] for a in s.find(x)}) != 1:
        return None
    rng, channels, spatial = s.rng, s.find(x)[0].shape[1], s.find(x)[0].ndim - 2
    group = rng.choice([g for g in (1, 1, 1, 2, 4, channels) if channels % g == 0])
    kernel = [rng.choice((1, 2, 3, 4)) for _ in range(spatial)]
    strides = [rng.choice((1, 2, 3)) for _ in range(spatial)]
    w = s.floats(channels, rng.choice((1, 3, 8)), *kernel, scale=0.3)
    out = s.find(w)[0].shape[1] * group
    attrs: dict[str, object] = {"kernel_shape": kernel, "strides": strides, "group": group,
                                "pads": [rng.randint(0, (k - 1) // 2) for k in kernel] * 2}
    if rng.random() < 0.3:
        attrs["output_padding"] = [rng.randint(0, t - 1) for t in strides]
    if rng.random() < 0.2:
        attrs["dilations"] = [rng.choice((1, 2)) for _ in kernel]
    return s.emit("ConvTranspose", [x, w] if rng.random() < 0.4 else [x, w, s.floats(out)], **attrs)


def pool(s: Scope) -> str | None:
    x = s.pick(ranked(3, 4))
    if x is None:
        return None
    rng, spatial = s.rng, s.find(x)[0].ndim - 2
    op = rng.choice(("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"))
    if op.startswith("Global"):
        return s.emit(op, [x])
    kernel = [rng.choice((1, 2, 3)) for _ in range(spatial)]
    attrs: dict[str, object] = {"kernel_shape": kernel, "strides": [rng.choice((1, 2, 3)) for _ in kernel],
                                "ceil_mode": rng.choice((0, 0, 1))}
    if rng.random() < 0.6:
        attrs["pads"] = [rng.randint(0, k - 1) for k in kernel] * 2
    slack = min(attrs["strides"]) - 1 if attrs["ceil_mode"] else 0       # type: ignore[call-overload]
    if min(a.shape[2:][i] for a in s.find(x) for i in range(spatial)) + slack < max(kernel):
        return None                          # ONNX Runtime makes one or no window where none fits
    if op == "AveragePool":
        attrs["count_include_pad"] = rng.choice((0, 1))
    elif rng.random() < 0.2 and min(a.shape[2:][i] for a in s.find(x) for i in range(spatial)) > 4:
        attrs["dilations"] = [rng.choice((1, 2)) for _ in kernel]
    return s.emit(op, [x], **attrs)


def batch_norm(s: Scope) -> str | None:
    x = s.pick(ranked(2, 3, 4))
    if x is None or len({a.shape[1] for a in s.find(x)}) != 1:
        return None
    c = s.find(x)[0].shape[1]
    return s.emit("BatchNormalization", [x, s.floats(c), s.floats(c), s.floats(c), s.floats(c, positive=True)])


def instance_norm(s: Scope) -> str | None:
    x = s.pick(lambda a: ranked(3, 4)(a) and bool(np.prod(a.shape[2:]) > 3))
    if x is None or len({a.shape[1] for a in s.find(x)}) != 1:
        return None
    c = s.find(x)[0].shape[1]
    return s.emit("InstanceNormalization", [x, s.floats(c), s.floats(c)])


def layer_norm(s: Scope) -> str | None:
    x = s.pick(lambda a: floats(a) and a.ndim >= 1 and a.shape[-1] > 2)
    if x is None or len({a.shape[-1] for a in s.find(x)}) != 1:
        return None
    width = s.find(x)[0].shape[-1]
    if s.opset < 17:
        mean = s.emit("ReduceMean", [x], axes=[-1])
        d = s.emit("Sub", [x, mean]) if mean else None
        sq = s.emit("Pow", [d, s.const(np.array(2, np.float32))]) if d else None
        var = s.emit("ReduceMean", [sq], axes=[-1]) if sq else None
        e = s.emit("Add", [var, s.const(np.array(1e-5, np.float32))]) if var else None
        root = s.emit("Sqrt", [e]) if e else None
        out = s.emit("Div", [d, root]) if root else None
        out = s.emit("Mul", [out, s.floats(width)]) if out else None
        return s.emit("Add", [out, s.floats(width)]) if out else None
    axis = -1
    last = [a.shape[-2:] for a in s.find(x)]
    shape: tuple[int, ...] = (width,)
    if len(last[0]) == 2 and len(set(last)) == 1 and s.rng.random() < 0.3:
        axis, shape = -2, last[0]
    inputs = [x, s.floats(*shape), *([s.floats(*shape)] if s.rng.random() < 0.7 else [])]
    return s.emit("LayerNormalization", inputs, axis=axis, epsilon=1e-5)


def gelu_chain(s: Scope) -> str | None:
    x = s.pick(floats)
    e = s.emit("Div", [x, s.const(np.array(2 ** 0.5, np.float32))]) if x else None
    e = s.emit("Erf", [e]) if e else None
    e = s.emit("Add", [e, s.const(np.array(1, np.float32))]) if e else None
    e = s.emit("Mul", [x, e]) if x and e else None
    return s.emit("Mul", [e, s.const(np.array(0.5, np.float32))]) if e else None


def silu_chain(s: Scope) -> str | None:
    x = s.pick(floats)
    gate = s.emit(s.rng.choice(("Sigmoid", "HardSigmoid")), [x]) if x else None
    return s.emit("Mul", [x, gate] if s.rng.random() < 0.5 else [gate, x]) if x and gate else None


def gemm(s: Scope) -> str | None:
    a = s.pick(ranked(2))
    if a is None:
        return None
    rng, ta, tb = s.rng, s.rng.choice((0, 0, 1)), s.rng.choice((0, 1))
    k = {v.shape[0 if ta else 1] for v in s.find(a)}
    if len(k) != 1:
        return None
    depth, n = k.pop(), rng.choice((1, 3, 8, 17))
    b = s.floats(*((n, depth) if tb else (depth, n)), scale=depth ** -0.5)
    attrs: dict[str, object] = {"transA": ta, "transB": tb}
    if rng.random() < 0.3:
        attrs |= {"alpha": rng.choice((0.5, 1.0)), "beta": rng.choice((0.0, 1.0, 2.0))}
    c = rng.choice(([], [s.floats(n)], [s.floats(1, n)], [s.floats()], [s.floats(1)]))
    return s.emit("Gemm", [a, b, *c], **attrs)


def matmul(s: Scope) -> str | None:
    a = s.pick(lambda v: floats(v) and v.ndim >= 1 and v.size > 0)
    if a is None:
        return None
    arrays = s.find(a)
    others = [n for n in s.visible() if floats(s.find(n)[0]) and s.constant_of(n) is None and s.find(n)[0].ndim >= 1]
    s.rng.shuffle(others)
    if s.rng.random() < 0.6:
        for b in others[:6]:
            if all(p.shape[-1] == q.shape[max(q.ndim - 2, 0)] for p, q in zip(arrays, s.find(b), strict=True)):
                found = s.emit("MatMul", [a, b])
                if found:
                    return found
    k = {v.shape[-1] for v in arrays}
    if len(k) != 1:
        return None
    depth, n = k.pop(), s.rng.choice((1, 4, 8, 17))
    lead = s.rng.choice(([], [], [], [1], [2]))
    shape = [depth] if s.rng.random() < 0.1 else [*lead, depth, n]
    return s.emit("MatMul", [a, s.floats(*shape, scale=depth ** -0.5)])


def attention(s: Scope) -> str | None:
    x = s.pick(ranked(2, 3))
    if x is None:
        return None
    rank = s.find(x)[0].ndim
    t = s.emit("Transpose", [x], perm=[*range(rank - 2), rank - 1, rank - 2])
    m = s.emit("MatMul", [x, t]) if t else None
    m = s.emit("Mul", [m, s.const(np.array(0.2, np.float32))]) if m else None
    m = s.emit("Softmax", [m], axis=-1 if s.opset >= 13 else rank - 1) if m else None
    return s.emit("MatMul", [m, x]) if m else None


def softmax(s: Scope) -> str | None:
    x = s.pick(lambda a: floats(a) and a.ndim >= 1 and a.size > 0)
    if x is None:
        return None
    rank = s.find(x)[0].ndim
    return s.emit(s.rng.choice(("Softmax", "Softmax", "LogSoftmax")), [x], axis=s.rng.randint(-rank, rank - 1))


REDUCTIONS = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
              "ReduceSumSquare", "ReduceLogSumExp", "ReduceLogSum")


def reduce(s: Scope) -> str | None:
    op = s.rng.choice(REDUCTIONS)
    x = s.pick(lambda a: a.dtype in (np.float32, np.float32, np.int64, np.int32, np.float64) and a.size > 0)
    if x is None:
        return None
    if s.find(x)[0].dtype.kind != "f" and op in ("ReduceL2", "ReduceLogSum", "ReduceLogSumExp"):
        return None                                           # ONNX leaves open how integers are rounded
    if op == "ReduceLogSum" and not all((a > 0.05).all() for a in s.find(x)):
        return None
    rank = s.find(x)[0].ndim
    axes = sorted(s.rng.sample(range(rank), s.rng.randint(0, rank))) if rank else []
    axes = [a - rank if s.rng.random() < 0.3 else a for a in axes]
    keep = s.rng.choice((0, 1))
    if not axes:
        return s.emit(op, [x], keepdims=keep)
    if s.opset >= 18 or (op == "ReduceSum" and s.opset >= 13):
        return s.emit(op, [x, s.ints(*axes)], keepdims=keep)
    return s.emit(op, [x], axes=axes, keepdims=keep)


def arg_max(s: Scope) -> str | None:
    x = s.pick(lambda a: floats(a) and a.ndim >= 1 and a.size > 0)
    if x is None or not s.is_exact(x):
        return None
    return s.emit(s.rng.choice(("ArgMax", "ArgMin")), [x], axis=s.rng.randrange(s.find(x)[0].ndim),
                  keepdims=s.rng.choice((0, 1)))


def cum_sum(s: Scope) -> str | None:
    x = s.pick(lambda a: a.dtype in (np.float32, np.int64) and a.ndim >= 1)
    if x is None:
        return None
    return s.emit("CumSum", [x, s.const(np.array(s.rng.randrange(s.find(x)[0].ndim)))],
                  exclusive=s.rng.choice((0, 1)), reverse=s.rng.choice((0, 1)))


def activation(s: Scope, x: str) -> str | None:
    """One of the activations that follow convolutions, as one node or as exporters spell it."""
    kind = s.rng.choice(("Relu", "Relu", "Clip", "silu", "hardswish", "LeakyRelu", "Sigmoid", "none", "gelu"))
    if kind == "none":
        return x
    if kind == "Clip":
        return s.emit("Clip", [x, s.const(np.array(0, np.float32)), s.const(np.array(6, np.float32))])
    if kind == "silu":
        gate = s.emit("Sigmoid", [x])
        return s.emit("Mul", [x, gate]) if gate else None
    if kind == "hardswish":
        six = s.const(np.array(6, np.float32))
        shifted = s.emit("Add", [x, s.const(np.array(3, np.float32))])
        gate = s.emit("Clip", [shifted, s.const(np.array(0, np.float32)), six]) if shifted else None
        product = s.emit("Mul", [x, gate]) if gate else None
        return s.emit("Div", [product, six]) if product else None
    if kind == "gelu":
        half = s.emit("Mul", [x, s.const(np.array(0.5, np.float32))])
        e = s.emit("Mul", [x, s.const(np.array(0.5 ** 0.5, np.float32))])
        e = s.emit("Erf", [e]) if e else None
        e = s.emit("Add", [e, s.const(np.array(1, np.float32))]) if e else None
        return s.emit("Mul", [half, e]) if half and e else None
    return s.emit(kind, [x])


def unit(s: Scope, x: str, out: int, kernel: int, stride: int = 1, group: int = 1) -> str | None:
    """Convolution, perhaps BatchNormalization, activation."""
    channels = s.find(x)[0].shape[1]
    w = s.floats(out, channels // group, kernel, kernel, scale=(channels // group * kernel * kernel) ** -0.5)
    y = s.emit("Conv", [x, w] if s.rng.random() < 0.5 else [x, w, s.floats(out)], kernel_shape=[kernel, kernel],
               pads=[kernel // 2] * 4, strides=[stride, stride], group=group)
    if y and s.rng.random() < 0.5:
        y = s.emit("BatchNormalization", [y, s.floats(out), s.floats(out), s.floats(out),
                                          s.floats(out, positive=True)])
    return activation(s, y) if y else None


def conv_block(s: Scope) -> str | None:
    """What real networks are made of: residual, inverted residual, squeeze and excite, branches, skip connections."""
    x = s.pick(ranked(4))
    if x is None or len({a.shape[1] for a in s.find(x)}) != 1:
        return None
    rng, channels = s.rng, s.find(x)[0].shape[1]
    kind = rng.choice(("residual", "inverted", "squeeze", "branches", "skip", "dense"))
    wide = rng.choice((8, 13, 16, 24))
    if kind == "residual":
        y = unit(s, x, wide, 3)
        y = unit(s, y, channels, rng.choice((1, 3))) if y else None
        y = s.emit("Add", rng.sample([x, y], 2)) if y else None
        return activation(s, y) if y else None
    if kind == "inverted":
        y = unit(s, x, wide, 1)
        y = unit(s, y, wide, rng.choice((3, 5)), rng.choice((1, 2)), wide) if y else None
        y = unit(s, y, channels, 1) if y else None
        return (s.emit("Add", [x, y]) or y) if y else None
    if kind == "squeeze":
        y = s.emit("GlobalAveragePool", [x])
        y = unit(s, y, 8, 1) if y else None
        y = unit(s, y, channels, 1) if y else None
        y = s.emit(rng.choice(("Sigmoid", "HardSigmoid")), [y]) if y else None
        return s.emit("Mul", rng.sample([x, y], 2)) if y else None
    if kind == "branches":
        parts = [unit(s, x, rng.choice((3, 8, 16)), k) for k in rng.sample((1, 3, 5), 2)]
        parts.append(s.emit("MaxPool", [x], kernel_shape=[3, 3], pads=[1] * 4))
        return s.emit("Concat", [p for p in parts if p], axis=1)
    if kind == "skip":
        y = unit(s, x, wide, 3, 2)
        y = s.emit("ConvTranspose", [y, s.floats(wide, 8, 2, 2, scale=0.3)], kernel_shape=[2, 2],
                   strides=[2, 2]) if y else None
        return s.emit("Concat", [x, y], axis=1) if y else None
    y = unit(s, x, rng.choice((4, 8)), 3)
    y = s.emit("Concat", [x, y], axis=1) if y else None
    return unit(s, y, wide, 1) if y else None


COMPUTE: tuple[Callable[[Scope], object], ...] = (
    *[unary] * 7, *[binary] * 10, variadic, prelu, clip, clip, rounding, modulo, compare, compare, logic, where, where,
    cast, cast, *[conv] * 9, *[conv_block] * 6, *[conv_transpose] * 2, *[pool] * 4, *[batch_norm] * 3, instance_norm,
    *[layer_norm] * 2, gelu_chain, silu_chain, *[gemm] * 3, *[matmul] * 4, attention, *[softmax] * 3, *[reduce] * 5,
    arg_max, cum_sum,
)
