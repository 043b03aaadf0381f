"""Fused attention against ONNX Runtime's kernels: every form of mask, past keys, values of another size."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .one_model import NodeCase, check, model_of, run_package, weights

RNG = np.random.default_rng(13)


def x(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def mask(*shape: int) -> np.ndarray:
    kept = RNG.integers(0, 2, shape).astype(np.int32)
    kept[..., 0] = 1
    return kept


def i32(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def test_attention_masks(tmp_path: Path) -> None:
    def case(inputs: list[np.ndarray | None], held: frozenset[int] = weights(1, 2), **attrs: object) -> NodeCase:
        return NodeCase("Attention", [x(2, 5, 7), x(7, 36), x(36), *inputs], {"num_heads": 3, **attrs}, constants=held)

    check([case([]), case([], weights()), case([mask(2, 5)]), case([mask(2, 5, 5)]), case([i32(3, 5)]),
           case([i32(3, 5, 1, 2)]), case([], unidirectional=1), case([mask(2, 5)], unidirectional=1),
           case([mask(2, 5, 5)], unidirectional=1), case([i32(4, 2)], unidirectional=1, mask_filter_value=-50.0),
           case([mask(2, 5), None, x(2, 3, 5, 5)]), case([None, None, x(1, 1, 5, 5)], scale=0.25),
           case([np.zeros((2, 5), np.int32)], unidirectional=1)], tmp_path)


def test_attention_forms(tmp_path: Path) -> None:
    def case(inputs: list[np.ndarray | None], outputs: int = 1, **attrs: object) -> NodeCase:
        return NodeCase("Attention", inputs, {"num_heads": 2, **attrs}, outputs, weights(1, 2))

    past = x(2, 2, 2, 3, 4)
    check([case([x(2, 5, 6), x(6, 8 + 8 + 12), x(28)], qkv_hidden_sizes=[8, 8, 12]),
           case([x(2, 5, 6), x(6, 24), x(24)], 2),
           case([x(2, 5, 6), x(6, 24), x(24), None, past], 2),
           case([x(2, 5, 6), x(6, 24), x(24), None, past], 2, unidirectional=1),
           case([x(2, 1, 6), x(6, 24), x(24), mask(2, 4), past], 2, unidirectional=1),
           case([x(2, 5, 6), x(6, 24), x(24), mask(2, 5, 8), past], 2),
           case([x(1, 1, 6), x(6, 24), x(24)])], tmp_path)


def test_quantized_attention(tmp_path: Path) -> None:
    data, weight = RNG.integers(0, 256, (2, 5, 6)).astype(np.uint8), RNG.integers(-64, 64, (6, 24)).astype(np.int8)
    scale, columns = np.array(0.01, np.float32), RNG.uniform(0.005, 0.02, 24).astype(np.float32)
    point, points = np.array(120, np.uint8), RNG.integers(-9, 9, 24).astype(np.int8)
    held, heads = weights(1, 2, 3, 4, 6, 7), {"num_heads": 2}
    check([NodeCase("QAttention", [data, weight, x(24), scale, scale, mask(2, 5), point, np.array(3, np.int8)], heads,
                    constants=held),
           NodeCase("QAttention", [data, weight, x(24), scale, columns, None, point, points],
                    {"unidirectional": 1, **heads}, constants=held),
           NodeCase("QAttention", [data, weight, x(24), scale, scale, mask(2, 8), point, np.array(0, np.int8),
                                   x(2, 2, 2, 3, 4)], heads, 2, held)], tmp_path)


def test_multi_head(tmp_path: Path) -> None:
    def case(inputs: list[np.ndarray | None], outputs: int = 1, **attrs: object) -> NodeCase:
        return NodeCase("MultiHeadAttention", inputs, {"num_heads": 3, **attrs}, outputs)

    q, k, v, past = x(2, 5, 12), x(2, 7, 12), x(2, 7, 15), x(2, 3, 4, 4)
    check([case([q, k, v]), case([q, k, v, x(39)]), case([q, k, v, x(39), mask(2, 7)]),
           case([q, k, v, None, i32(4, 7)]),
           case([q, k, v, None, mask(2, 5, 7), x(1, 3, 5, 7)], scale=0.5), case([q, k, v, None, None, x(2, 1, 5, 7)]),
           case([q, k, k, None, mask(2, 11), None, past, past], 3), case([q, q, q, x(36)], 3, unidirectional=1),
           case([q, q, q, None, None, None, past, past], 3, unidirectional=1), case([q, x(2, 3, 7, 4), x(2, 3, 7, 4)]),
           case([x(1, 1, 12), x(1, 1, 12), x(1, 1, 12)])], tmp_path)


def test_packed(tmp_path: Path) -> None:
    """ONNX Runtime takes packed operands on GPUs only: they must equal the same operands given apart."""
    heads, bias = {"num_heads": 3}, x(36)
    packed, pair = x(2, 5, 3, 3, 4), x(2, 7, 3, 2, 4)
    q, k, v = (np.ascontiguousarray(packed[:, :, :, i]).reshape(2, 5, 12) for i in range(3))
    key, value = (np.ascontiguousarray(pair[:, :, :, i]).reshape(2, 7, 12) for i in range(2))
    op = "MultiHeadAttention"
    model, feeds = model_of([NodeCase(op, [packed, None, None, bias], heads), NodeCase(op, [q, k, v, bias], heads),
                             NodeCase(op, [q, pair], heads), NodeCase(op, [q, key, value], heads)])
    found = run_package(model, feeds, tmp_path)
    np.testing.assert_allclose(found[0], found[1], 1e-5, 1e-6)
    np.testing.assert_allclose(found[2], found[3], 1e-5, 1e-6)
