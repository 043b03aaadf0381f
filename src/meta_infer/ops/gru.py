"""GRU, forward, reverse or in both directions.

Gates stand in ONNX's order z, r, h in the weights:
    z, r = F(x W + h R + Wb + Rb)
    n    = G(x Wh + Wbh + (r * h) Rh + Rbh)          or, linear_before_reset,  G(x Wh + Wbh + r * (h Rh + Rbh))
    h'   = (1 - z) * n + z * h
with F, G = Sigmoid, Tanh unless `activations` names others, two per direction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from meta_infer.ir.graph import Attr, Node
from meta_infer.ir.shapes import Dim
from meta_infer.ops.attrs import Attrs, int_of, text_of, texts_of
from meta_infer.ops.elementwise import floats
from meta_infer.ops.importing import attr_int, attr_text, core_node, present
from meta_infer.ops.opdef import ImportContext, InferContext, OnnxImport, OnnxNode, OpDef, Sample, TensorType
from meta_infer.ops.recurrent import (
    ACTIVATIONS,
    activations_of,
    check_lengths,
    check_plain,
    check_shapes,
    hidden_size_of,
)

DEFAULT_ACTIVATIONS = ("Sigmoid", "Tanh")
GATES = 3


def _infer(ctx: InferContext) -> tuple[TensorType, ...]:
    """Y [steps, directions, batch, hidden] and Y_h [directions, batch, hidden]."""
    (steps, batch, _), directions, hidden = check_shapes(ctx, GATES, {5: "initial_h"})
    dtype = ctx.input(0).dtype
    return (TensorType(dtype, (steps, directions, batch, hidden)), TensorType(dtype, (directions, batch, hidden)))


def _reference(attrs: Attrs, arrays: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
    x, w, r = arrays[:3]
    bias, h0 = (arrays[i] if i < len(arrays) else None for i in (3, 5))
    assert x is not None and w is not None and r is not None
    hidden, direction = int_of(attrs, "hidden_size"), text_of(attrs, "direction", "forward")
    (steps, batch, _), directions = x.shape, w.shape[0]
    names = texts_of(attrs, "activations", DEFAULT_ACTIVATIONS * directions)
    y = np.empty((steps, directions, batch, hidden), x.dtype)
    last = np.empty((directions, batch, hidden), x.dtype)
    for d in range(directions):
        f_gate, f_new = (ACTIVATIONS[n] for n in names[2 * d:2 * d + 2])
        h = np.zeros((batch, hidden), x.dtype) if h0 is None else h0[d]
        both = np.zeros(2 * GATES * hidden, x.dtype) if bias is None else bias[d]
        outer, inner = np.split(both, 2)
        reverse = direction == "reverse" or d == 1
        for t in range(steps - 1, -1, -1) if reverse else range(steps):
            given = x[t] @ w[d].T + outer
            gates = f_gate(given[:, :2 * hidden] + h @ r[d][:2 * hidden].T + inner[:2 * hidden])
            z, reset = np.split(gates, 2, axis=1)
            if int_of(attrs, "linear_before_reset", 0):
                old = reset * (h @ r[d][2 * hidden:].T + inner[2 * hidden:])
            else:
                old = (reset * h) @ r[d][2 * hidden:].T + inner[2 * hidden:]
            h = (1 - z) * f_new(given[:, 2 * hidden:] + old) + z * h
            y[t, d] = h
        last[d] = h
    return y, last


def _flops(attrs: Attrs, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]) -> Dim:
    x, w = inputs[0], inputs[1]
    assert x is not None and w is not None
    steps, batch, features = x.shape
    hidden = int_of(attrs, "hidden_size")
    return steps * batch * (w.shape[0] * (6 * hidden * (features + hidden) + 30 * hidden))


def _import(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """`layout` exists since 14. Sequence lengths are fine when they all equal the number of steps."""
    direction = attr_text(node, "direction", "forward")
    check_plain(node)
    if present(node, 4):
        check_lengths(node, ctx)
    inputs = ["" if i == 4 else name for i, name in enumerate(node.inputs)]
    names = activations_of(node, DEFAULT_ACTIVATIONS * (2 if direction == "bidirectional" else 1))
    return (core_node(node, "GRU", inputs, node.outputs, hidden_size=hidden_size_of(node, ctx), direction=direction,
                      activations=names, linear_before_reset=attr_int(node, "linear_before_reset")),)


def _samples(rng: np.random.Generator) -> Iterable[Sample]:
    for steps, batch, features, hidden in ((1, 1, 1, 1), (5, 2, 3, 4), (7, 1, 9, 17)):
        for direction in ("forward", "reverse", "bidirectional"):
            for before in (0, 1):
                d = 2 if direction == "bidirectional" else 1
                attrs: dict[str, Attr] = {"hidden_size": hidden, "direction": direction, "linear_before_reset": before,
                                          "activations": DEFAULT_ACTIVATIONS * d}
                x = floats(rng, (steps, batch, features), -1, 1)
                w = floats(rng, (d, GATES * hidden, features), -1, 1)
                r = floats(rng, (d, GATES * hidden, hidden), -1, 1)
                bias, h0 = floats(rng, (d, 2 * GATES * hidden), -1, 1), floats(rng, (d, batch, hidden), -1, 1)
                yield Sample((x, w, r, bias), attrs, 1e-4, 1e-5)
                yield Sample((x, w, r, None, None, h0), attrs, 1e-4, 1e-5)
                yield Sample((x, w, r, bias, None, h0), attrs, 1e-4, 1e-5)
    x, w, r = floats(rng, (3, 2, 4), -1, 1), floats(rng, (1, 9, 4), -1, 1), floats(rng, (1, 9, 3), -1, 1)
    yield Sample((x, w, r), {"hidden_size": 3, "direction": "forward", "activations": ("Sigmoid", "Relu"),
                             "linear_before_reset": 0}, 1e-4, 1e-5)


GRU = OpDef("GRU", _infer, _reference, _samples, (OnnxImport("GRU", 7, convert=_import),), flops=_flops)

OPS: tuple[OpDef, ...] = (GRU,)
