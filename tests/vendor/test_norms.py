"""Fused normalisations against ONNX Runtime's kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .one_model import NodeCase, check, weights

RNG = np.random.default_rng(6)


def x(*shape: int) -> np.ndarray:
    return RNG.uniform(-2, 2, shape).astype(np.float32)


def ids(high: int, *shape: int) -> np.ndarray:
    return RNG.integers(0, high, shape).astype(np.int32)


WHOLE, WITH_SUM = (True,), (True, False, False, True)


def test_skip(tmp_path: Path) -> None:
    skip, simple = "SkipLayerNormalization", "SkipSimplifiedLayerNormalization"
    check([NodeCase(skip, [x(2, 3, 17), x(2, 3, 17), x(17), x(17), x(17)], {"epsilon": 1e-5}, outputs=WITH_SUM),
           NodeCase(skip, [x(2, 3, 8), x(2, 3, 8), x(8), x(8)], outputs=WHOLE, constants=weights(2, 3)),
           NodeCase(skip, [x(2, 3, 8), x(1, 3, 8), x(8)], outputs=WITH_SUM),
           NodeCase(skip, [x(2, 3, 8), x(3, 8), x(8), None, x(8)], outputs=WITH_SUM),
           NodeCase(simple, [x(2, 3, 17), x(2, 3, 17), x(17), x(17)], {"epsilon": 1e-5}, outputs=WITH_SUM),
           NodeCase(simple, [x(2, 3, 9), x(2, 3, 9), x(9)], outputs=WITH_SUM, constants=weights(2)),
           NodeCase(simple, [x(0, 3, 9), x(0, 3, 9), x(9)])], tmp_path)


def test_without_skip(tmp_path: Path) -> None:
    """The optimiser writes both into ONNX's own domain, whatever opset the model declares."""
    check([NodeCase("LayerNormalization", [x(2, 3, 5), x(5), x(5)], domain=""),
           NodeCase("LayerNormalization", [x(2, 3, 5), x(3, 5)], {"axis": 1}, domain=""),
           NodeCase("SimplifiedLayerNormalization", [x(2, 3, 5), x(5)], {"epsilon": 1e-3}, outputs=2, domain=""),
           NodeCase("SimplifiedLayerNormalization", [x(2, 3, 5), x(3, 5)], {"axis": 1}, domain="")], tmp_path, opset=12)


def test_embeddings(tmp_path: Path) -> None:
    op, tables = "EmbedLayerNormalization", [x(20, 8), x(7, 8), x(2, 8), x(8), x(8)]
    bare = [tables[0], tables[1], None, tables[3], tables[4]]
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 0, 0, 0]], np.int32)
    check([NodeCase(op, [ids(20, 2, 5), ids(2, 2, 5), *tables, mask], outputs=3, constants=weights(2, 3, 4, 5, 6)),
           NodeCase(op, [ids(20, 2, 5), None, *bare], outputs=2),
           NodeCase(op, [ids(20, 2, 5), ids(2, 2, 5), *tables, None, ids(7, 2, 5)], outputs=(True, True, True)),
           NodeCase(op, [ids(20, 3, 7), None, *bare, None, ids(7, 1, 7)], {"epsilon": 1e-3}, outputs=2)], tmp_path)


def test_quantised_embeddings(tmp_path: Path) -> None:
    def table(*shape: int) -> np.ndarray:
        return RNG.integers(0, 256, shape).astype(np.uint8)

    def scale() -> np.ndarray:
        return np.array(RNG.uniform(0.01, 0.03), np.float32)

    op, mask = "QEmbedLayerNormalization", np.array([[1, 1, 1, 0, 0], [1, 1, 0, 0, 0]], np.int32)
    whole = [ids(20, 2, 5), ids(2, 2, 5), table(20, 8), table(7, 8), table(2, 8), table(8), table(8), mask,
             *(scale() for _ in range(5)), *(table() for _ in range(5))]
    bare = [None if i in (1, 4, 7, 10, 15) else value for i, value in enumerate(whole)]
    check([NodeCase(op, whole, outputs=2, constants=weights(*range(2, 7), *range(8, 18))),
           NodeCase(op, bare, {"epsilon": 1e-3}, outputs=2)], tmp_path)
