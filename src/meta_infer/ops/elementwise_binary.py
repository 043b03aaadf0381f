"""Elementwise arithmetic of two operands: Add, Sub, Mul, Div, Pow, Max, Min, Mod.

The variadic Sum, Max, Min and Mean of ONNX become chains of these. Comparisons and logic are in comparison.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from meta_infer.ir.graph import Node
from meta_infer.ir.loop import Const, Expr, Splat, binary, const, intrin, maximum, minimum, select, unary
from meta_infer.ir.shapes import Dim, bounds, dim_max, dim_min, divisible
from meta_infer.ops.attrs import Attrs, int_of
from meta_infer.ops.elementwise import BINARY_SHAPES, binary_samples, elementwise, floats, ints, is_number
from meta_infer.ops.elementwise_unary import ODD
from meta_infer.ops.importing import core_node
from meta_infer.ops.opdef import ImportContext, OnnxImport, OnnxNode, OpDef, Sample
from meta_infer.support.dtypes import FLOAT64, DType

# --- elements that are dims -----------------------------------------------------------------------------------

def _div_content(dtype: DType, a: Dim, b: Dim) -> Dim | None:
    """Integers truncate, which is floor for operands known to be non-negative; floats only when exact."""
    if bounds(b)[0] <= 0 or (bounds(a)[0] < 0 and not (isinstance(a, int) and isinstance(b, int) and a % b == 0)):
        return None
    if dtype.is_float and not (isinstance(b, int) and divisible(a, b)):
        return None
    return a // b


def _mod_content(dtype: DType, a: Dim, b: Dim) -> Dim | None:
    return a % b if bounds(b)[0] > 0 and bounds(a)[0] >= 0 else None


# --- numpy ----------------------------------------------------------------------------------------------------

def _div(attrs: Attrs, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.dtype.kind == "f":
        return np.asarray(a / b)
    quotient = np.abs(a) // np.abs(np.where(b == 0, 1, b))
    return np.asarray(np.where((a < 0) != (b < 0), -quotient, quotient))


def _pow(attrs: Attrs, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Integers wrap; negative powers of them truncate: 1 for 1, +-1 for -1, else 0."""
    if a.dtype.kind not in "iu":
        return np.asarray(np.power(a, b))
    unit = np.where(a == 1, 1, np.where(a == -1, np.where(b % 2 == 0, 1, -1), 0)).astype(a.dtype)
    return np.where(b < 0, unit, np.power(a, np.maximum(b, 0)))


def _mod(attrs: Attrs, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray(np.fmod(a, b) if int_of(attrs, "fmod", 0) else np.mod(a, b))


# --- loop IR --------------------------------------------------------------------------------------------------

def _never_nan(x: Expr) -> bool:
    if isinstance(x, Splat):
        return _never_nan(x.a)
    return not x.type.dtype.is_float or (isinstance(x, Const) and not math.isnan(x.value))


def _max_expr(attrs: Attrs, a: Expr, b: Expr) -> Expr:
    """Keeps a NaN of either side: loop IR's max gives b when one is NaN, so only a NaN in `a` needs care."""
    if _never_nan(a):
        return maximum(a, b)
    return maximum(b, a) if _never_nan(b) else select(a.ne(a), a, maximum(a, b))


def _min_expr(attrs: Attrs, a: Expr, b: Expr) -> Expr:
    if _never_nan(a):
        return minimum(a, b)
    return minimum(b, a) if _never_nan(b) else select(a.ne(a), a, minimum(a, b))


def _pow_expr(attrs: Attrs, a: Expr, b: Expr) -> Expr:
    """Integers by repeated squaring over the six low bits of the exponent.

    From 64 on an exponent counts as 62 or 63, whichever is as even: 0, 1 and -1 keep their powers, those of other
    bases do not fit 64 bits anyway.
    """
    if a.type.dtype.is_float:
        return intrin("pow", a, b)
    one, zero = const(1, a.type), const(0, a.type)
    odd = (b & one).eq(one)
    power = select(b.lt(64), b, (b & one) + 62)
    total, square = one, a
    for bit in range(6):
        total = select((power & (1 << bit)).eq(zero), total, total * square)
        square = square * square
    if a.type.dtype.kind == "uint":
        return total
    unit = select(a.eq(one), one, select(a.eq(-1), select(odd, const(-1, a.type), one), zero))
    return select(b.lt(zero), unit, total)


def _mod_expr(attrs: Attrs, a: Expr, b: Expr) -> Expr:
    """fmod=1: the dividend's sign, as C; fmod=0: the divisor's sign, as Python.

    The quotient of floats is rounded, so a remainder of the wrong sign is put right by one divisor; the result is
    exact while |a / b| < 2^23. A remainder of zero has its leader's sign; an infinite divisor leaves a finite a.
    """
    truncated, zero = bool(int_of(attrs, "fmod", 0)), const(0, a.type)
    leader = a if truncated else b
    if a.type.dtype.is_float:
        rest = a - unary("trunc" if truncated else "floor", a / b) * b
        inf = const(float("inf"), a.type)
        rest = select(unary("abs", b).eq(inf) & unary("abs", a).lt(inf), a, rest)
        positive = unary("abs", rest)
        rest = select(rest.eq(zero), select((const(1.0, a.type) / leader).lt(zero), -positive, positive), rest)
        step = select(leader.lt(zero), -unary("abs", b), unary("abs", b))
    else:
        rest, step = binary("rem", a, b), b
        if truncated:
            return rest
    wrong = rest.ne(zero) & (rest.lt(zero) ^ leader.lt(zero))
    return select(wrong, rest + step, rest)


# --- import ---------------------------------------------------------------------------------------------------

def chain(node: OnnxNode, ctx: ImportContext, op: str) -> Iterable[Node]:
    """`op(a, b, c)` -> `op(op(a, b), c)`; a single operand is passed on."""
    names = [name for name in node.inputs if name]
    if len(names) == 1:
        yield core_node(node, "Identity", names, node.outputs)
        return
    total = names[0]
    for i, name in enumerate(names[1:], 2):
        target = node.outputs[0] if i == len(names) else ctx.fresh(node.outputs[0])
        yield core_node(node, op, (total, name), (target,))
        total = target


def _import_sum(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    return chain(node, ctx, "Add")


def _import_extreme(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    return chain(node, ctx, node.op)


def _import_mean(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """Mean(a, b, c) -> Mul(Add(Add(a, b), c), 1/3)."""
    count = len(node.inputs)
    if count == 1:
        return chain(node, ctx, "Add")
    total = ctx.fresh(node.outputs[0])
    dtype = ctx.type_of(node.inputs[0]).dtype.numpy
    parts = OnnxNode(node.op, node.domain, node.version, node.inputs, (total,), {}, node.name or node.outputs[0])
    share = ctx.constant(np.array(count, dtype), "count")
    return (*chain(parts, ctx, "Add"), core_node(node, "Div", (total, share), node.outputs))


def _import_pow(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """The exponent takes the base's dtype (opset 12 lets them differ); a small constant power of integers is Mul."""
    base, power = node.inputs
    base_type, power_type = ctx.type_of(base), ctx.type_of(power)
    known = ctx.known(power)
    if not base_type.dtype.is_float:
        if power_type.dtype.is_float and (known is None or not np.all(known == np.trunc(known))):
            return _real_power(node, ctx)
        if known is not None and known.size == 1 and int(known.reshape(-1)[0]) in (1, 2, 3, 4) and (
                known.ndim <= len(base_type.shape)):
            names = (base,) * int(known.reshape(-1)[0])
            return chain(OnnxNode(node.op, node.domain, node.version, names, node.outputs, {}, node.name), ctx, "Mul")
    if power_type.dtype == base_type.dtype:
        return (core_node(node, "Pow", node.inputs, node.outputs),)
    if known is not None:
        same = ctx.constant(known.astype(base_type.dtype.numpy), "exponent")
        return (core_node(node, "Pow", (base, same), node.outputs),)
    cast = ctx.fresh(power)
    return (core_node(node, "Cast", (power,), (cast,), to=base_type.dtype),
            core_node(node, "Pow", (base, cast), node.outputs))


def _real_power(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """An integer to a float power: exact where that is a whole number, else the power in float64, truncated."""
    base, power = node.inputs
    dtype = ctx.type_of(base).dtype
    whole, back, is_whole, exact, a, b, real, cut = (ctx.fresh(node.outputs[0]) for _ in range(8))
    return (core_node(node, "Cast", (power,), (whole,), to=dtype),
            core_node(node, "Cast", (whole,), (back,), to=ctx.type_of(power).dtype),
            core_node(node, "Equal", (back, power), (is_whole,)),
            core_node(node, "Pow", (base, whole), (exact,)),
            core_node(node, "Cast", (base,), (a,), to=FLOAT64), core_node(node, "Cast", (power,), (b,), to=FLOAT64),
            core_node(node, "Pow", (a, b), (real,)), core_node(node, "Cast", (real,), (cut,), to=dtype),
            core_node(node, "Where", (is_whole, exact, cut), node.outputs))


# --- samples --------------------------------------------------------------------------------------------------

def _pow_samples(rng: np.random.Generator) -> Iterable[Sample]:
    for a, b in BINARY_SHAPES:
        yield Sample((floats(rng, a, 0.1, 4), floats(rng, b, -3, 3)))
    for power in (2.0, 3.0, 0.5, -1.0, 0.0, 1.0):
        yield Sample((floats(rng, (3, 5)), np.array(power, np.float32)))
    for dtype in (np.int64, np.int32):
        yield Sample((ints(rng, (4, 5), dtype, -4, 4), ints(rng, (3, 1, 5), dtype, 0, 9)))
    bases, powers = np.array([0, 1, -1, -1, 2, 3, -5, 2, -2]), np.array([0, 100, 101, 64, -1, 2, -3, 62, 63])
    yield Sample((bases, powers), onnx_op="-")


def _mod_samples(rng: np.random.Generator) -> Iterable[Sample]:
    for dtype in (np.int64, np.int32):
        for fmod in (0, 1):
            divisor = ints(rng, (4, 5), dtype)
            yield Sample((ints(rng, (3, 4, 5), dtype), np.where(divisor == 0, 3, divisor).astype(dtype)),
                         {"fmod": fmod})
    for a, b in BINARY_SHAPES:
        yield Sample((floats(rng, a, -50, 50), floats(rng, b, 0.5, 4)), {"fmod": 1})


ADD = elementwise("Add", 2, lambda attrs, a, b: a + b, lambda attrs, a, b: a + b, binary_samples(special=ODD),
                  takes=is_number, onnx=(OnnxImport("Add", 7), OnnxImport("Sum", 6, convert=_import_sum)),
                  content=lambda dtype, a, b: a + b)
SUB = elementwise("Sub", 2, lambda attrs, a, b: a - b, lambda attrs, a, b: a - b, binary_samples(special=ODD),
                  takes=is_number, onnx=(OnnxImport("Sub", 7),), content=lambda dtype, a, b: a - b)
MUL = elementwise("Mul", 2, lambda attrs, a, b: a * b, lambda attrs, a, b: a * b, binary_samples(special=ODD),
                  takes=is_number, onnx=(OnnxImport("Mul", 7),), content=lambda dtype, a, b: a * b)
DIV = elementwise("Div", 2, _div, lambda attrs, a, b: a / b, binary_samples(special=ODD, divisor=True),
                  takes=is_number, onnx=(OnnxImport("Div", 7), OnnxImport("Mean", 6, convert=_import_mean)),
                  content=_div_content)
POW = elementwise("Pow", 2, _pow, _pow_expr, _pow_samples, takes=is_number,
                  onnx=(OnnxImport("Pow", 7, convert=_import_pow),), cost=20)
MAX = elementwise("Max", 2, lambda attrs, a, b: np.maximum(a, b), _max_expr, binary_samples(special=ODD),
                  takes=is_number, onnx=(OnnxImport("Max", 6, convert=_import_extreme),),
                  content=lambda dtype, a, b: dim_max(a, b))
MIN = elementwise("Min", 2, lambda attrs, a, b: np.minimum(a, b), _min_expr, binary_samples(special=ODD),
                  takes=is_number, onnx=(OnnxImport("Min", 6, convert=_import_extreme),),
                  content=lambda dtype, a, b: dim_min(a, b))
MOD = elementwise("Mod", 2, _mod, _mod_expr, _mod_samples, takes=is_number, onnx=(OnnxImport("Mod", 10),),
                  keeps_zero=False, content=_mod_content)

OPS: tuple[OpDef, ...] = (ADD, SUB, MUL, DIV, POW, MAX, MIN, MOD)
