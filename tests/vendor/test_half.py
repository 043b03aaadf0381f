"""float16 forms of the ops that exporters write in float16, against ONNX Runtime's kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .one_model import NodeCase, check, weights

RNG = np.random.default_rng(31)


def x(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float16)


def test_half(tmp_path: Path) -> None:
    packed, scales = RNG.integers(0, 256, (8, 3, 8)).astype(np.uint8), RNG.uniform(0.01, 0.1, (8, 3)).astype(np.float16)
    points = RNG.integers(0, 256, (8, 2)).astype(np.uint8)
    heads, lengths = {"num_heads": 4, "kv_num_heads": 2}, np.array([4, 4], np.int32)
    places = RNG.integers(0, 10, (2, 5)).astype(np.int64)
    near = {"rtol": 2e-2, "atol": 2e-2}
    check([NodeCase("SkipLayerNormalization", [x(2, 3, 16), x(2, 3, 16), x(16), x(16), x(16)],
                    outputs=(True, False, False, True), **near),
           NodeCase("SkipSimplifiedLayerNormalization", [x(2, 3, 16), x(2, 3, 16), x(16)], **near),
           NodeCase("SimplifiedLayerNormalization", [x(2, 3, 16), x(16)], domain="", **near),
           NodeCase("MatMulNBits", [x(3, 40), packed, scales, points], {"N": 8, "K": 40, "block_size": 16},
                    constants=weights(1, 2, 3), **near),
           NodeCase("RotaryEmbedding", [x(2, 5, 24), places, x(10, 4), x(10, 4)], **near),
           NodeCase("GroupQueryAttention", [x(2, 5, 64), x(2, 5, 32), x(2, 5, 32), None, None, lengths,
                                            np.array(5, np.int32)], heads, 3, weights(6), **near)], tmp_path)
