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

from meta_infer.ir.graph import Node
from meta_infer.ops.attrs import Attrs, bool_of
from meta_infer.ops.importing import attr_int
from meta_infer.ops.opdef import ImportContext, InferContext, OnnxImport, OnnxNode, OpDef, Sample, TensorType
from meta_infer.ops.recurrent import (
    activation_samples,
    clipped,
    directions_of,
    flops_of,
    import_recurrent,
    one_state_types,
    operand,
    recurrent_samples,
    run_steps,
)
from meta_infer.ops.recurrent_activations import Activation, read_activations

DEFAULT_ACTIVATIONS = ("Sigmoid", "Tanh")
GATES = 3


def _infer(ctx: InferContext) -> tuple[TensorType, ...]:
    return one_state_types(ctx, GATES)


def _reference(attrs: Attrs, arrays: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
    w, r, bias = arrays[1], arrays[2], operand(arrays, 3)
    assert w is not None and r is not None
    functions = read_activations(attrs, DEFAULT_ACTIVATIONS, directions_of(attrs))
    size, before = r.shape[2], bool_of(attrs, "linear_before_reset", False)

    def step(d: int, x: np.ndarray, states: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        f_gate, f_new = functions[d]
        (h,) = states
        outer, inner = np.split(np.zeros(2 * GATES * size, x.dtype) if bias is None else bias[d], 2)
        given = x @ w[d].T + outer
        gates = given[:, :2 * size] + h @ r[d][:2 * size].T + inner[:2 * size]
        z, reset = np.split(f_gate.array(clipped(attrs, gates)), 2, axis=1)
        if before:
            old = reset * (h @ r[d][2 * size:].T + inner[2 * size:])
        else:
            old = (reset * h) @ r[d][2 * size:].T + inner[2 * size:]
        return ((1 - z) * f_new.array(clipped(attrs, given[:, 2 * size:] + old)) + z * h,)

    return run_steps(attrs, arrays, (5,), step)


def _import(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    return import_recurrent(node, ctx, DEFAULT_ACTIVATIONS, (5,),
                            linear_before_reset=attr_int(node, "linear_before_reset"))


def _samples(rng: np.random.Generator) -> Iterable[Sample]:
    both = ({"linear_before_reset": 0}, {"linear_before_reset": 1})
    yield from recurrent_samples(rng, GATES, 1, DEFAULT_ACTIVATIONS, both)
    yield from activation_samples(
        rng, GATES, (Activation("Sigmoid"), Activation("Relu"), Activation("HardSigmoid", 0.2, 0.5),
                     Activation("Softsign")), both)


GRU = OpDef("GRU", _infer, _reference, _samples, (OnnxImport("GRU", 7, convert=_import),),
            flops=lambda attrs, inputs, outputs: flops_of(GATES, attrs, inputs))

OPS: tuple[OpDef, ...] = (GRU,)
