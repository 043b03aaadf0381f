"""RNN, forward, reverse or in both directions: h' = F(x W + h R + Wb + Rb), with F = Tanh unless `activations` names
another, one per direction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from meta_infer.ir.graph import Node
from meta_infer.ops.attrs import Attrs
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

DEFAULT_ACTIVATIONS = ("Tanh",)
GATES = 1


def _infer(ctx: InferContext) -> tuple[TensorType, ...]:
    return one_state_types(ctx, GATES)


def _reference(attrs: Attrs, arrays: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
    w, r, bias = arrays[1], arrays[2], operand(arrays, 3)
    assert w is not None and r is not None
    functions = read_activations(attrs, DEFAULT_ACTIVATIONS, directions_of(attrs))

    def step(d: int, x: np.ndarray, states: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        total = x @ w[d].T + states[0] @ r[d].T
        if bias is not None:
            total = total + sum(np.split(bias[d], 2))
        return (functions[d][0].array(clipped(attrs, total)),)

    return run_steps(attrs, arrays, (5,), step)


def _import(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    return import_recurrent(node, ctx, DEFAULT_ACTIVATIONS, (5,))


def _samples(rng: np.random.Generator) -> Iterable[Sample]:
    yield from recurrent_samples(rng, GATES, 1, DEFAULT_ACTIVATIONS, ({},))
    for functions in ((Activation("Affine", 0.4, 0.1), Activation("LeakyRelu", 0.2)),
                      (Activation("ThresholdedRelu", 0.25), Activation("Softplus"))):
        yield from activation_samples(rng, GATES, functions, ({},))


RNN = OpDef("RNN", _infer, _reference, _samples, (OnnxImport("RNN", 7, convert=_import),),
            flops=lambda attrs, inputs, outputs: flops_of(GATES, attrs, inputs))

OPS: tuple[OpDef, ...] = (RNN,)
