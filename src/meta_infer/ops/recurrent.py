"""LSTM, forward, reverse or in both directions.

Gates stand in ONNX's order i, o, f, c in the weights:
    i, o, f = F(x W + h R + Wb + Rb),  c' = f * c + i * G(...),  h' = o * H(c')
with F, G, H = Sigmoid, Tanh, Tanh unless `activations` names others, three per direction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from meta_infer.ir.graph import Attr, Node, Shape
from meta_infer.ir.shapes import Dim
from meta_infer.ops.activation import sigmoid
from meta_infer.ops.attrs import Attrs, int_of, text_of, texts_of
from meta_infer.ops.broadcast import same_dim, text
from meta_infer.ops.elementwise import floats
from meta_infer.ops.importing import attr_int, attr_text, core_node, present, shape_of, unsupported
from meta_infer.ops.opdef import (
    ImportContext,
    InferContext,
    OnnxImport,
    OnnxNode,
    OpDef,
    Sample,
    ShapeError,
    TensorType,
)

DEFAULT_ACTIVATIONS = ("Sigmoid", "Tanh", "Tanh")
ACTIVATIONS: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "Sigmoid": sigmoid,
    "Tanh": lambda x: np.asarray(np.tanh(x)),
    "Relu": lambda x: np.asarray(np.maximum(x, 0)),
}


def check_shapes(ctx: InferContext, gates: int, states: Mapping[int, str]) -> tuple[Shape, int, int]:
    """(shape of x, directions, hidden size) of a recurrent node with so many gates.

    `states` names the operands that hold initial states. Raises ShapeError for operands that do not fit.
    """
    x = ctx.input(0)
    hidden = int_of(ctx.node.attrs, "hidden_size")
    directions = 2 if text_of(ctx.node.attrs, "direction", "forward") == "bidirectional" else 1
    if len(x.shape) != 3:
        raise ShapeError(f"input {text(x.shape)} should be [steps, batch, features]")
    _, batch, features = x.shape
    wanted: list[tuple[int, str, tuple[Dim, ...]]] = [
        (1, "W", (directions, gates * hidden, features)), (2, "R", (directions, gates * hidden, hidden)),
        (3, "B", (directions, 2 * gates * hidden)),
        *((i, name, (directions, batch, hidden)) for i, name in states.items())]
    for i, name, shape in wanted:
        found = ctx.input(i) if i < 3 else ctx.optional(i)
        if found is None:
            continue
        if len(found.shape) != len(shape):
            raise ShapeError(f"{name} {text(found.shape)} should be {text(shape)}")
        try:
            for a, b in zip(found.shape, shape, strict=True):
                same_dim(a, b)
        except ShapeError as error:
            raise ShapeError(f"{name} {text(found.shape)} should be {text(shape)}: {error}") from None
    return x.shape, directions, hidden


def _infer(ctx: InferContext) -> tuple[TensorType, ...]:
    """Y [steps, directions, batch, hidden], Y_h and Y_c [directions, batch, hidden]."""
    (steps, batch, _), directions, hidden = check_shapes(ctx, 4, {5: "initial_h", 6: "initial_c"})
    dtype = ctx.input(0).dtype
    state = TensorType(dtype, (directions, batch, hidden))
    return TensorType(dtype, (steps, directions, batch, hidden)), state, state


def _reference(attrs: Attrs, arrays: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
    x, w, r = arrays[:3]
    bias, h0, c0 = (arrays[i] if i < len(arrays) else None for i in (3, 5, 6))
    assert x is not None and w is not None and r is not None
    hidden, direction = int_of(attrs, "hidden_size"), text_of(attrs, "direction", "forward")
    (steps, batch, _), directions = x.shape, w.shape[0]
    names = texts_of(attrs, "activations", DEFAULT_ACTIVATIONS * directions)
    y = np.empty((steps, directions, batch, hidden), x.dtype)
    last_h, last_c = (np.empty((directions, batch, hidden), x.dtype) for _ in range(2))
    for d in range(directions):
        f_gate, f_cell, f_hidden = (ACTIVATIONS[n] for n in names[3 * d:3 * d + 3])
        h = np.zeros((batch, hidden), x.dtype) if h0 is None else h0[d]
        c = np.zeros((batch, hidden), x.dtype) if c0 is None else c0[d]
        offset = 0 if bias is None else bias[d, :4 * hidden] + bias[d, 4 * hidden:]
        reverse = direction == "reverse" or d == 1
        for t in range(steps - 1, -1, -1) if reverse else range(steps):
            gates = x[t] @ w[d].T + h @ r[d].T + offset
            i, o, f, g = np.split(gates, 4, axis=1)
            c = f_gate(f) * c + f_gate(i) * f_cell(g)
            h = f_gate(o) * f_hidden(c)
            y[t, d] = h
        last_h[d], last_c[d] = h, c
    return y, last_h, last_c


def _flops(attrs: Attrs, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]) -> Dim:
    x, w = inputs[0], inputs[1]
    assert x is not None and w is not None
    steps, batch, features = x.shape
    hidden = int_of(attrs, "hidden_size")
    return steps * batch * (w.shape[0] * (8 * hidden * (features + hidden) + 40 * hidden))


def _import(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """`layout` exists since 14. Sequence lengths are fine when they all equal the number of steps."""
    direction = attr_text(node, "direction", "forward")
    check_plain(node)
    if attr_int(node, "input_forget"):
        raise unsupported(node, "input_forget", "export with separate input and forget gates")
    if present(node, 7):
        raise unsupported(node, "peephole weights P", "export without peepholes")
    if present(node, 4):
        check_lengths(node, ctx)
    inputs = ["" if i == 4 else name for i, name in enumerate(node.inputs)]
    names = activations_of(node, DEFAULT_ACTIVATIONS * (2 if direction == "bidirectional" else 1))
    return (core_node(node, "LSTM", inputs, node.outputs, hidden_size=hidden_size_of(node, ctx), direction=direction,
                      activations=names),)


def check_plain(node: OnnxNode) -> None:
    """Raises UnsupportedError for forms that LSTM and GRU share and no kernel has."""
    if attr_int(node, "layout"):
        raise unsupported(node, "layout 1 (batch first)", "export with layout 0 and a Transpose around it")
    if node.attrs.get("clip") is not None:
        raise unsupported(node, "clip of the cell", "export without clip")


def check_lengths(node: OnnxNode, ctx: ImportContext) -> None:
    """Raises UnsupportedError for sequence lengths (operand 4) other than the number of steps."""
    known, steps = ctx.known(node.inputs[4]), shape_of(node, ctx)[0]
    if known is None or not all(int(n) == steps for n in known.reshape(-1)):
        raise unsupported(node, "sequence_lens that differ from the number of steps",
                          "run sequences of one length, without padding")


def hidden_size_of(node: OnnxNode, ctx: ImportContext) -> int:
    """The attribute, else the size that R has."""
    size = node.attrs.get("hidden_size") or shape_of(node, ctx, 2)[-1]
    if not isinstance(size, int):
        raise unsupported(node, f"hidden size {size} is dynamic", "give hidden_size")
    return size


def activations_of(node: OnnxNode, default: tuple[str, ...]) -> tuple[str, ...]:
    """Names of all activations, of both directions, as this module spells them. Raises UnsupportedError."""
    given = node.attrs.get("activations")
    names = tuple(str(n) for n in given) if isinstance(given, (tuple, list)) and given else default
    by_lower = {name.lower(): name for name in ACTIVATIONS}
    unknown = [n for n in names if n.lower() not in by_lower]
    if unknown or len(names) != len(default):
        raise unsupported(node, f"activations {names}", f"use {', '.join(ACTIVATIONS)}, {len(default)} in all")
    return tuple(by_lower[n.lower()] for n in names)


def _samples(rng: np.random.Generator) -> Iterable[Sample]:
    for steps, batch, features, hidden in ((1, 1, 1, 1), (5, 2, 3, 4), (7, 1, 9, 17)):
        for direction in ("forward", "reverse", "bidirectional"):
            d = 2 if direction == "bidirectional" else 1
            attrs: dict[str, Attr] = {"hidden_size": hidden, "direction": direction,
                                      "activations": DEFAULT_ACTIVATIONS * d}
            x = floats(rng, (steps, batch, features), -1, 1)
            w, r = floats(rng, (d, 4 * hidden, features), -1, 1), floats(rng, (d, 4 * hidden, hidden), -1, 1)
            bias = floats(rng, (d, 8 * hidden), -1, 1)
            h0, c0 = floats(rng, (d, batch, hidden), -1, 1), floats(rng, (d, batch, hidden), -1, 1)
            yield Sample((x, w, r, bias), attrs, 1e-4, 1e-5)
            yield Sample((x, w, r, bias, None, h0, c0), attrs, 1e-4, 1e-5)
            yield Sample((x, w, r, None, None, h0), attrs, 1e-4, 1e-5)
    x, w, r = floats(rng, (3, 2, 4), -1, 1), floats(rng, (1, 12, 4), -1, 1), floats(rng, (1, 12, 3), -1, 1)
    yield Sample((x, w, r), {"hidden_size": 3, "direction": "forward", "activations": ("Sigmoid", "Relu", "Tanh")},
                 1e-4, 1e-5)


LSTM = OpDef("LSTM", _infer, _reference, _samples, (OnnxImport("LSTM", 7, convert=_import),), flops=_flops)

OPS: tuple[OpDef, ...] = (LSTM,)
