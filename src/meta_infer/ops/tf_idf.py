"""TfIdfVectorizer on integers: how often each n-gram of a pool occurs in every row, weighted.

For every length n and every distance d = 1 ... skips + 1 between the members of an n-gram:

    hits[row, start, gram] = all over j < n of x[row, start + j d] == pool[gram, j]

and counts are the sums of hits over starts. Single tokens have no distance and count once.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from meta_infer.ir.graph import Node
from meta_infer.ir.shapes import dim_max
from meta_infer.ops.importing import attr_int, attr_ints, attr_text, shape_of, unsupported
from meta_infer.ops.ml_features import listed
from meta_infer.ops.node_builder import NodeBuilder
from meta_infer.ops.opdef import ImportContext, OnnxImport, OnnxNode, ShapeError
from meta_infer.support.dtypes import FLOAT32, INT32


def _pools(node: OnnxNode) -> dict[int, np.ndarray]:
    """n -> [grams, n], in the order of the pool. Raises UnsupportedError for pools of strings."""
    pool, starts = attr_ints(node, "pool_int64s"), attr_ints(node, "ngram_counts") or ()
    if pool is None:
        raise unsupported(node, "a pool of strings is not supported", "number the tokens before the model")
    spans = zip(starts, (*starts[1:], len(pool)), strict=True)
    return {n: np.array(pool[a:b], np.int64).reshape(-1, n) for n, (a, b) in enumerate(spans, 1)}


def _import(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    build, x, shape = NodeBuilder.importing(node, ctx), node.inputs[0], shape_of(node, ctx)
    if len(shape) not in (1, 2):
        raise ShapeError(f"takes a row of tokens or several, not {len(shape)} dimensions")
    if len(shape) == 1:
        x = build.reshape(x, (1, shape[0]))
    rows, length = (1, *shape)[-2:]
    pools, dtype, indexes = _pools(node), ctx.type_of(node.inputs[0]).dtype, attr_ints(node, "ngram_indexes") or ()
    counts, first, width = [], 0, max(indexes) + 1
    for n, grams in pools.items():
        places = indexes[first:first + len(grams)]
        first += len(grams)
        if not len(grams) or not attr_int(node, "min_gram_length") <= n <= attr_int(node, "max_gram_length"):
            continue
        to_output = np.zeros((len(grams), width), np.float32)
        to_output[np.arange(len(grams)), places] = 1
        for distance in range(1, 2 + (attr_int(node, "max_skip_count") if n > 1 else 0)):
            windows = dim_max(length - (n - 1) * distance, 0)
            if windows == 0:
                break
            found = ""
            for j in range(n):
                token = build.emit("Slice", x, starts=(0, j * distance), sizes=(rows, windows), steps=(1, 1))
                same = build.emit("Equal", build.reshape(token, (rows, windows, 1)),
                                  build.constant(grams[:, j].astype(dtype.numpy), "gram"))
                found = build.emit("And", found, same) if found else same
            hits = build.emit("ReduceSum", build.cast(found, INT32), axes=(1,), keepdims=False)
            counts.append(build.emit("MatMul", build.cast(hits, FLOAT32), build.constant(to_output, "indexes")))
    if not counts:
        counts.append(build.emit("Expand", build.scalar(0, FLOAT32, "zero"), shape=(rows, width)))
    total = counts[0]
    for more in counts[1:]:
        total = build.emit("Add", total, more)
    weighted = _weighted(build, node, total, indexes)
    build.reshape(weighted, (width,) if len(shape) == 1 else (rows, width), out=node.outputs[0])
    return build.nodes


def _weighted(build: NodeBuilder, node: OnnxNode, counts: str, indexes: tuple[int, ...]) -> str:
    """TF: the counts. IDF: the weight of what occurs. TFIDF: both. Weights stand in the order of the pool."""
    mode, weights = attr_text(node, "mode"), listed(node, "weights")
    if mode == "IDF":
        counts = build.emit("Min", counts, build.scalar(1, FLOAT32, "one"))
    if mode == "TF" or not weights:
        return counts
    placed = np.zeros(max(indexes) + 1, np.float32)
    placed[list(indexes)] = weights
    return build.emit("Mul", counts, build.constant(placed, "weights"))


IMPORTS: tuple[OnnxImport, ...] = (OnnxImport("TfIdfVectorizer", 9, convert=_import),)
