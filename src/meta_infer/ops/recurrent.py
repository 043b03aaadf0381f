"""What RNN, LSTM and GRU share: shapes, import, and the walk over the steps of their references.

Core nodes are always in layout 0: X [steps, batch, features], Y [steps, directions, batch, hidden], states
[directions, batch, hidden]. Inputs stand where ONNX has them: X, W, R, B, sequence_lens, initial_h, and for LSTM
initial_c and P. `clip`, where given, bounds what goes into the gates' activations to [-clip, clip].

With sequence_lens a sequence ends at its own length: the reverse direction begins at its last element, Y is zero
behind it, and the last states are those at its end (zero when it has no element, as in ONNX Runtime).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from meta_infer.ir.graph import Attr, Node, Shape
from meta_infer.ir.shapes import Dim
from meta_infer.ops.attrs import Attrs, float_of, int_of, text_of
from meta_infer.ops.broadcast import same_dim, text
from meta_infer.ops.elementwise import floats
from meta_infer.ops.importing import attr_float, attr_int, attr_text, core_node, present, shape_of, unsupported
from meta_infer.ops.opdef import ImportContext, InferContext, OnnxNode, Sample, ShapeError, TensorType
from meta_infer.ops.recurrent_activations import (
    Activation,
    activation_attrs,
    activations_of,
    onnx_activation_attrs,
)

DIRECTIONS = ("forward", "reverse", "bidirectional")
_LENGTHS = 4                                             # position of sequence_lens
_BATCH_FIRST = {4: (2, 0, 1, 3), 3: (1, 0, 2)}           # layout 0 to 1, by rank


def directions_of(attrs: Attrs) -> int:
    return 2 if text_of(attrs, "direction", "forward") == "bidirectional" else 1


def check_shapes(ctx: InferContext, gates: int, states: Mapping[int, str], peepholes: int | None = None,
                 ) -> tuple[Shape, int, int]:
    """(shape of x, directions, hidden size) of a recurrent node with so many gates.

    `states` names the operands that hold initial states, `peepholes` is where P stands. Raises ShapeError for
    operands that do not fit.
    """
    x = ctx.input(0)
    hidden, directions = int_of(ctx.node.attrs, "hidden_size"), directions_of(ctx.node.attrs)
    if len(x.shape) != 3:
        raise ShapeError(f"input {text(x.shape)} should be [steps, batch, features]")
    _, batch, features = x.shape
    wanted: list[tuple[int, str, tuple[Dim, ...]]] = [
        (1, "W", (directions, gates * hidden, features)), (2, "R", (directions, gates * hidden, hidden)),
        (3, "B", (directions, 2 * gates * hidden)), (_LENGTHS, "sequence_lens", (batch,)),
        *((i, name, (directions, batch, hidden)) for i, name in states.items())]
    if peepholes is not None:
        wanted.append((peepholes, "P", (directions, 3 * hidden)))
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


def one_state_types(ctx: InferContext, gates: int) -> tuple[TensorType, ...]:
    """Of a cell with one state (RNN, GRU): Y [steps, directions, batch, hidden] and Y_h [directions, batch, hidden]."""
    (steps, batch, _), directions, hidden = check_shapes(ctx, gates, {5: "initial_h"})
    dtype = ctx.input(0).dtype
    return TensorType(dtype, (steps, directions, batch, hidden)), TensorType(dtype, (directions, batch, hidden))


def import_recurrent(node: OnnxNode, ctx: ImportContext, default: tuple[str, ...], states: Iterable[int],
                     **attrs: Attr) -> Iterable[Node]:
    """The core node for an ONNX node, between transposes for layout 1 (which exists since opset 14).

    `default` are the activations of one direction, `states` where initial states stand among the inputs.
    """
    direction = attr_text(node, "direction", "forward")
    if direction not in DIRECTIONS:
        raise unsupported(node, f"direction {direction!r} is not known", f"use {', '.join(DIRECTIONS)}")
    functions = activations_of(node, default * (2 if direction == "bidirectional" else 1))
    attrs |= {"hidden_size": _hidden_size(node, ctx), "direction": direction, **activation_attrs(functions)}
    if node.attrs.get("clip") is not None:
        attrs["clip"] = attr_float(node, "clip")
    inputs, outputs = list(node.inputs), list(node.outputs)
    batch_first = attr_int(node, "layout") == 1
    if present(node, _LENGTHS) and _all_full(node, ctx, shape_of(node, ctx)[1 if batch_first else 0]):
        inputs[_LENGTHS] = ""
    before, after = [], []
    if batch_first:
        for i in (0, *states):
            if present(node, i):
                inputs[i] = ctx.fresh(node.inputs[i])
                before.append(core_node(node, "Transpose", (node.inputs[i],), (inputs[i],), perm=(1, 0, 2)))
        for i, name in enumerate(node.outputs):
            if name:
                outputs[i] = ctx.fresh(name)
                after.append(core_node(node, "Transpose", (outputs[i],), (name,), perm=_BATCH_FIRST[3 if i else 4]))
    return (*before, core_node(node, node.op, inputs, outputs, **attrs), *after)


def _all_full(node: OnnxNode, ctx: ImportContext, steps: Dim) -> bool:
    """True when sequence_lens are known and all sequences have every step."""
    known = ctx.known(node.inputs[_LENGTHS])
    return known is not None and all(int(n) == steps for n in known.reshape(-1))


def _hidden_size(node: OnnxNode, ctx: ImportContext) -> int:
    """The attribute, else the size that R has."""
    size = node.attrs.get("hidden_size") or shape_of(node, ctx, 2)[-1]
    if not isinstance(size, int):
        raise unsupported(node, f"hidden size {size} is dynamic", "give hidden_size")
    return size


Step = Callable[[int, np.ndarray, tuple[np.ndarray, ...]], tuple[np.ndarray, ...]]


def run_steps(attrs: Attrs, arrays: Sequence[np.ndarray | None], states: Sequence[int],
              step: Step) -> tuple[np.ndarray, ...]:
    """Y and the last of each state. `step(direction, x_t, states) -> states`, the first of which is the output.

    `states` are the positions of the initial states among `arrays`.
    """
    x = arrays[0]
    assert x is not None
    hidden, directions = int_of(attrs, "hidden_size"), directions_of(attrs)
    steps, batch, _ = x.shape
    given = operand(arrays, _LENGTHS)
    lengths = np.full(batch, steps) if given is None else np.clip(given, 0, steps)
    y, rows = np.zeros((steps, directions, batch, hidden), x.dtype), np.arange(batch)
    last = [np.zeros((directions, batch, hidden), x.dtype) for _ in states]
    for d in range(directions):
        initial = (operand(arrays, i) for i in states)
        now = tuple(np.zeros((batch, hidden), x.dtype) if s is None else s[d] for s in initial)
        reverse = d == 1 or text_of(attrs, "direction", "forward") == "reverse"
        for i in range(steps):
            inside = i < lengths
            t = np.where(inside, lengths - 1 - i, i) if reverse else np.full(batch, i)
            new = step(d, x[t, rows], now)
            now = tuple(np.where(inside[:, None], a, b).astype(x.dtype) for a, b in zip(new, now, strict=True))
            y[t, d, rows] = np.where(inside[:, None], now[0], 0)
        for result, state in zip(last, now, strict=True):
            result[d] = state if given is None else np.where(lengths[:, None] > 0, state, 0)
    return y, *last


def operand(arrays: Sequence[np.ndarray | None], i: int) -> np.ndarray | None:
    return arrays[i] if i < len(arrays) else None


def clipped(attrs: Attrs, gates: np.ndarray) -> np.ndarray:
    """What goes into the activations: bounded where the node has `clip`."""
    if attrs.get("clip") is None:
        return gates
    return np.asarray(np.clip(gates, -float_of(attrs, "clip"), float_of(attrs, "clip")))


def flops_of(gates: int, attrs: Attrs, inputs: Sequence[TensorType | None]) -> Dim:
    """Both products and ten operations per activation."""
    x, w = inputs[0], inputs[1]
    assert x is not None and w is not None
    steps, batch, features = x.shape
    hidden = int_of(attrs, "hidden_size")
    return steps * batch * (w.shape[0] * (2 * gates * hidden * (features + hidden) + 10 * gates * hidden))


def recurrent_samples(rng: np.random.Generator, gates: int, states: int, default: tuple[str, ...],
                      variants: Iterable[Attrs]) -> Iterable[Sample]:
    """Cases that all three ops have, for each set of further attributes: directions, biases, states, lengths, clip."""
    for steps, batch, features, hidden in ((1, 1, 1, 1), (5, 2, 3, 4), (7, 3, 9, 17)):
        for direction in DIRECTIONS:
            for more in variants:
                d = 2 if direction == "bidirectional" else 1
                attrs: dict[str, Attr] = {"hidden_size": hidden, "direction": direction, "activations": default * d,
                                          **more}
                x = floats(rng, (steps, batch, features), -1, 1)
                w, r = (floats(rng, (d, gates * hidden, n), -1, 1) for n in (features, hidden))
                bias = floats(rng, (d, 2 * gates * hidden), -1, 1)
                initial = tuple(floats(rng, (d, batch, hidden), -1, 1) for _ in range(states))
                lengths = rng.integers(1, steps + 1, batch).astype(np.int32)
                yield Sample((x, w, r, bias), attrs, 1e-4, 1e-5)
                yield Sample((x, w, r, None, None, initial[0]), attrs, 1e-4, 1e-5)
                yield Sample((x, w, r, bias, lengths, *initial), {**attrs, "clip": 0.75}, 1e-4, 1e-5)


def activation_samples(rng: np.random.Generator, gates: int, functions: tuple[Activation, ...],
                       variants: Iterable[Attrs]) -> Iterable[Sample]:
    """Both directions with activations of their own."""
    x = floats(rng, (4, 2, 3), -1, 1)
    w, r = (floats(rng, (2, gates * 5, n), -1, 1) for n in (3, 5))
    for more in variants:
        attrs: dict[str, Attr] = {"hidden_size": 5, "direction": "bidirectional", **more}
        yield Sample((x, w, r), {**attrs, **activation_attrs(functions)}, 1e-4, 1e-5,
                     onnx_attrs={**attrs, **onnx_activation_attrs(functions)})
