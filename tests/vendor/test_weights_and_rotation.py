"""MatMulNBits and RotaryEmbedding against ONNX Runtime's kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .one_model import NodeCase, check, weights

RNG = np.random.default_rng(17)


def x(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def u8(*shape: int) -> np.ndarray:
    return RNG.integers(0, 256, shape).astype(np.uint8)


def product(lead: tuple[int, ...], n: int, k: int, bits: int = 4, block: int = 16, zeros: str = "",
            held: frozenset[int] = weights(1, 2, 3, 5), bias: bool = False) -> NodeCase:
    count = -(-k // block)
    points = {"packed": u8(n, -(-count * bits // 8)), "float": RNG.uniform(0, 15, (n, count)).astype(np.float32)}
    inputs = [x(*lead, k), u8(n, count, block * bits // 8), RNG.uniform(0.01, 0.1, (n, count)).astype(np.float32),
              points.get(zeros), None, x(n) if bias else None]
    while inputs[-1] is None:
        inputs.pop()
    return NodeCase("MatMulNBits", inputs, {"N": n, "K": k, "bits": bits, "block_size": block}, constants=held,
                    rtol=1e-3, atol=1e-3)


def test_nbits(tmp_path: Path) -> None:
    check([product((3,), 8, 32), product((2, 3), 9, 40, zeros="packed"), product((1,), 33, 64, block=32, bias=True),
           product((3,), 8, 48, zeros="packed", bias=True), product((3,), 5, 32, zeros="float"),
           product((3,), 8, 64, bits=8, zeros="packed"), product((3,), 8, 64, bits=8),
           product((0,), 8, 32), product((3,), 8, 40, zeros="packed", held=weights())], tmp_path)


def test_rotary(tmp_path: Path) -> None:
    op, caches = "RotaryEmbedding", (x(10, 4), x(10, 4))
    places = RNG.integers(0, 10, (2, 5)).astype(np.int64)
    start = np.array([3], np.int64)
    check([NodeCase(op, [x(2, 5, 24), places, *caches]),
           NodeCase(op, [x(2, 5, 24), start, *caches], {"interleaved": 1}),
           NodeCase(op, [x(2, 3, 5, 8), places, *caches], constants=weights(2, 3)),
           NodeCase(op, [x(2, 3, 5, 8), start, *caches], {"interleaved": 1}),
           NodeCase(op, [x(2, 5, 36), places, *caches], {"num_heads": 3, "rotary_embedding_dim": 8}),
           NodeCase(op, [x(2, 5, 36), start, *caches],
                    {"num_heads": 3, "rotary_embedding_dim": 8, "interleaved": 1})], tmp_path)
