"""The register tile of integer products: `vectors` x `lanes` output channels by `columns` positions, all of int32.

Every step loads one vector of weights per block of channels, two or four neighbouring activations per position into
all lanes, and sums their products: 2 x 6 accumulators, two weights, an activation and a product fill sixteen registers.
"""

from __future__ import annotations

import numpy as np

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.loop import Buffer, Expr, Operand, Var, cast, dot
from meta_infer.kernels.int8.dot_path import DotPath
from meta_infer.support.dtypes import DType

MOST_COLUMNS = 14


def most_columns(vectors: int, path: DotPath, profile: Profile) -> int:
    """The widest tile that stays in registers; 0 when there is none."""
    registers = profile.vector_registers
    # An activation, products before they are added, ones to add them with.
    passing = 4 if path.terms == 2 or path.narrow else 1
    return max(0, min(MOST_COLUMNS, (registers - vectors - passing) // vectors))


def step_cost(vectors: int, columns: int) -> float:
    """Cycles of one step on a core with two multipliers, two loads and six instructions a cycle."""
    sums = vectors * columns
    return max(sums, vectors + columns, (2 * sums + vectors + columns) / 3) / 2


def step_share(vectors: int, columns: int) -> float:
    """Share of a core's multiplications that a tile makes use of."""
    return vectors * columns / 2 / step_cost(vectors, columns)


def multiply(b: Builder, acc: list[list[Var]], path: DotPath, x: Buffer, x_at: Expr, column_step: Operand, w: Buffer,
             w_at: Expr, depth: int, lanes: int) -> None:
    """Add `depth` channels: those of column j begin at `x_at + j * column_step`, the weights at `w_at`.

    Weights that lie in memory in fewer bits are widened on the way.
    """
    vectors = len(acc)
    for e in range(0, depth, path.terms):
        weights = [b.let(cast(b.load(w, w_at + (e * vectors + v * path.terms) * lanes, lanes * path.terms),
                              path.weight), "w") for v in range(vectors)]
        for j in range(len(acc[0])):
            value = path.broadcast(b, x, x_at + (column_step * j + e), lanes)
            for v in range(vectors):
                b.assign(acc[v][j], dot(value, weights[v], acc[v][j], path.narrow))


def pack_steps(weights: np.ndarray, path: DotPath, lanes: int, stored: DType | None = None) -> np.ndarray:
    """[outer..., channels in, vectors * lanes] -> [outer..., channels in / terms, vectors, lanes, terms], flat.

    `stored` is their type in memory, the path's own by default.
    """
    *outer, depth, width = weights.shape
    split = weights.reshape(*outer, depth // path.terms, path.terms, width // lanes, lanes)
    rank = split.ndim
    order = (*range(rank - 4), rank - 4, rank - 2, rank - 1, rank - 3)
    return np.ascontiguousarray(split.transpose(order)).astype((stored or path.weight).numpy).reshape(-1)
