"""What the kernels of LSTM and GRU share: weights by hidden unit, the input's part as one product, states in and out.

Gates of `lanes` neighbouring hidden units lie together, in ONNX's order, so that one pass over a panel of the
recurrent weights yields everything that the new state of these units needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.graph import Node, Value
from meta_infer.ir.group import PLAIN, Group
from meta_infer.ir.loop import Buffer, Expr, Type, const, intrin, maximum
from meta_infer.ir.shapes import product
from meta_infer.kernels.gemm import GEMM
from meta_infer.kernels.gemm_tile import Tile, pack_panels
from meta_infer.kernels.kernel import Lowering

# Sequences of a chunk, which share what streams from cache.
SEQUENCES = 6
GATES_OF_X = "temp:gates"

ACTIVATIONS: Mapping[str, Callable[[Expr], Expr]] = {
    "Sigmoid": lambda x: intrin("sigmoid", x),
    "Tanh": lambda x: intrin("tanh", x),
    "Relu": lambda x: maximum(x, 0.0),
}


def by_units(matrix: np.ndarray, gates: int, lanes: int) -> np.ndarray:
    """[directions, gates * hidden, K] -> [directions, K, blocks * gates * lanes], hidden units filled up with zeros."""
    directions, rows, depth = matrix.shape
    hidden = rows // gates
    blocks = -(-hidden // lanes)
    padded = np.zeros((directions, gates, blocks * lanes, depth), matrix.dtype)
    padded[:, :, :hidden] = matrix.reshape(directions, gates, hidden, depth)
    split = padded.reshape(directions, gates, blocks, lanes, depth).transpose(0, 4, 2, 1, 3)
    return split.reshape(directions, depth, blocks * gates * lanes)


def pack_recurrent(matrix: np.ndarray, gates: int, tile: Tile) -> np.ndarray:
    """[directions, gates * hidden, hidden] as panels: [directions, blocks, hidden, gates * lanes]."""
    return np.stack([pack_panels(side, tile.columns) for side in by_units(matrix, gates, tile.lanes)])


def input_bias(group: Group, name: str, gates: int) -> np.ndarray:
    """[directions, gates * hidden]: the sum of both biases that ONNX keeps in one tensor; zeros where it is absent."""
    recurrent = group.constants[group.anchor.inputs[2]]
    directions, rows, _ = recurrent.shape
    if not name:
        return np.zeros((directions, rows), recurrent.dtype)
    return np.asarray(group.constants[name].reshape(directions, 2, rows).sum(axis=1))


def input_product(group: Group, weights_name: str, bias: np.ndarray, gates: int, lanes: int,
                  profile: Profile) -> Lowering:
    """`temp:gates` [steps * batch, directions * blocks * gates * lanes] = x W + bias, as a Gemm of its own."""
    anchor = group.anchor
    x = group.values[anchor.inputs[0]]
    weights = np.concatenate(list(by_units(group.constants[weights_name], gates, lanes)), axis=1)
    packed_bias = by_units(bias[:, :, None], gates, lanes).reshape(-1)
    rows = product(x.shape[:2])
    names = (x.name, "packed:input", "packed:bias")
    values = {x.name: Value(x.name, x.dtype, (rows, weights.shape[0])),
              names[1]: Value(names[1], x.dtype, weights.shape), names[2]: Value(names[2], x.dtype, packed_bias.shape),
              GATES_OF_X: Value(GATES_OF_X, x.dtype, (rows, weights.shape[1]))}
    node = Node("Gemm", names, (GATES_OF_X,), origins=anchor.origins)
    gemm = Group(node, names, (GATES_OF_X,), values, {names[1]: weights, names[2]: packed_bias})
    (variant,) = GEMM.variants(gemm, profile)
    lowering = GEMM.lower(gemm, variant, dict.fromkeys((*names, GATES_OF_X), PLAIN), profile)
    return replace(lowering, packed={**lowering.packed, names[2]: packed_bias})


def begin_state(b: Builder, hidden: int, tile: Tile, size: Expr, row0: Expr, outside: Buffer | None,
                inside: Buffer) -> None:
    """Copy rows `row0`.. of an initial state [directions, batch, hidden], zeros where absent, to the chunk's memory."""
    lanes = tile.lanes
    width = -(-hidden // lanes) * lanes
    with b.loop(0, size, 1, "r") as r:
        for unit in range(0, width, lanes):
            count = None if unit + lanes <= hidden else const(hidden - unit)
            zero = const(0, Type(tile.dtype, lanes))
            value = zero if outside is None else b.load(outside, (row0 + r) * hidden + unit, lanes, count)
            b.store(inside, r * width + unit, value)


def end_state(b: Builder, hidden: int, tile: Tile, size: Expr, row0: Expr, outside: Buffer, inside: Buffer,
              at: Expr) -> None:
    """Copy the chunk's state, from element `at`, to rows `row0`.. of an output [directions, batch, hidden]."""
    lanes = tile.lanes
    width = -(-hidden // lanes) * lanes
    with b.loop(0, size, 1, "r") as r:
        for unit in range(0, width, lanes):
            count = None if unit + lanes <= hidden else const(hidden - unit)
            b.store(outside, (row0 + r) * hidden + unit, b.load(inside, at + r * width + unit, lanes), count)
