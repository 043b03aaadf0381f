"""LSTM, forward, reverse or in both directions.

Gates stand in ONNX's order i, o, f, c in the weights:
    i, f = F(x W + h R + Wb + Rb + P c),  c' = f * c + i * G(...),  o = F(... + P c'),  h' = o * H(c')
with F, G, H = Sigmoid, Tanh, Tanh unless `activations` names others, three per direction; P, the peephole weights,
may be absent. `input_forget` couples two gates: f = 1 - i.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from meta_infer.ir.graph import Attr, Node
from meta_infer.ops.attrs import Attrs, bool_of
from meta_infer.ops.elementwise import floats
from meta_infer.ops.importing import attr_int
from meta_infer.ops.opdef import ImportContext, InferContext, OnnxImport, OnnxNode, OpDef, Sample, TensorType
from meta_infer.ops.recurrent import (
    activation_samples,
    check_shapes,
    clipped,
    directions_of,
    flops_of,
    import_recurrent,
    operand,
    recurrent_samples,
    run_steps,
)
from meta_infer.ops.recurrent_activations import Activation, read_activations

DEFAULT_ACTIVATIONS = ("Sigmoid", "Tanh", "Tanh")
GATES = 4


def _infer(ctx: InferContext) -> tuple[TensorType, ...]:
    """Y [steps, directions, batch, hidden], Y_h and Y_c [directions, batch, hidden]."""
    (steps, batch, _), directions, hidden = check_shapes(ctx, GATES, {5: "initial_h", 6: "initial_c"}, 7)
    dtype = ctx.input(0).dtype
    state = TensorType(dtype, (directions, batch, hidden))
    return TensorType(dtype, (steps, directions, batch, hidden)), state, state


def _reference(attrs: Attrs, arrays: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
    w, r, bias, peepholes = arrays[1], arrays[2], operand(arrays, 3), operand(arrays, 7)
    assert w is not None and r is not None
    functions = read_activations(attrs, DEFAULT_ACTIVATIONS, directions_of(attrs))

    def step(d: int, x: np.ndarray, states: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        h, c = states
        f_gate, f_cell, f_hidden = functions[d]
        gates = x @ w[d].T + h @ r[d].T
        if bias is not None:
            gates = gates + sum(np.split(bias[d], 2))
        of_i, of_o, of_f, of_c = np.split(gates, 4, axis=1)
        p_i, p_o, p_f = (0, 0, 0) if peepholes is None else np.split(peepholes[d], 3)
        i = f_gate.array(clipped(attrs, of_i + p_i * c))
        f = 1 - i if bool_of(attrs, "input_forget", False) else f_gate.array(clipped(attrs, of_f + p_f * c))
        new = f * c + i * f_cell.array(clipped(attrs, of_c))
        return f_gate.array(clipped(attrs, of_o + p_o * new)) * f_hidden.array(new), new

    return run_steps(attrs, arrays, (5, 6), step)


def import_lstm(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    more: dict[str, Attr] = {"input_forget": True} if attr_int(node, "input_forget") else {}
    return import_recurrent(node, ctx, DEFAULT_ACTIVATIONS, (5, 6), **more)


def _samples(rng: np.random.Generator) -> Iterable[Sample]:
    yield from recurrent_samples(rng, GATES, 2, DEFAULT_ACTIVATIONS, ({}, {"input_forget": True}))
    yield from activation_samples(
        rng, GATES, (Activation("Sigmoid"), Activation("Relu"), Activation("Softsign"),
                     Activation("HardSigmoid", 0.3, 0.4), Activation("ScaledTanh", 0.7, 0.6), Activation("Elu", 1.5)),
        ({},))
    x, bias, peepholes = floats(rng, (5, 3, 4), -1, 1), floats(rng, (2, 8 * 7), -1, 1), floats(rng, (2, 21), -1, 1)
    w, r, c0 = floats(rng, (2, 28, 4), -1, 1), floats(rng, (2, 28, 7), -1, 1), floats(rng, (2, 3, 7), -1, 1)
    for more in ({}, {"clip": 0.5}):
        attrs: dict[str, Attr] = {"hidden_size": 7, "direction": "bidirectional", **more}
        attrs["activations"] = DEFAULT_ACTIVATIONS * 2
        yield Sample((x, w, r, bias, None, None, c0, peepholes), attrs, 1e-4, 1e-5)


LSTM = OpDef("LSTM", _infer, _reference, _samples, (OnnxImport("LSTM", 7, convert=import_lstm),),
             flops=lambda attrs, inputs, outputs: flops_of(GATES, attrs, inputs))

OPS: tuple[OpDef, ...] = (LSTM,)
