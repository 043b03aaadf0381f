"""GroupQueryAttention against ONNX Runtime's kernel: prompts, steps with a cache, rotation, windows, sinks."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .one_model import NodeCase, check, model_of, run_package, weights

RNG = np.random.default_rng(19)
HEADS = {"num_heads": 4, "kv_num_heads": 2}


def x(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def i32(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


TURNS = (x(16, 8), x(16, 8))


def case(steps: int, past: int, lengths: np.ndarray, total: int, extra: list[np.ndarray | None] | None = None,
         packed: bool = False, held: bool = True, outputs: int = 3, **attrs: object) -> NodeCase:
    """Two rows; heads of 16 elements; `lengths` are all keys of a row, the new ones included."""
    query = [x(2, steps, 128), None, None] if packed else [x(2, steps, 64), x(2, steps, 32), x(2, steps, 32)]
    cache = [x(2, 2, past, 16), x(2, 2, past, 16)] if past else [None, None]
    inputs = [*query, *cache, lengths - 1, np.array(total, np.int32), *(extra or [])]
    return NodeCase("GroupQueryAttention", inputs, {**HEADS, **attrs}, outputs, weights(6) if held else weights(),
                    rtol=1e-3, atol=1e-4)


ONE_ROW = NodeCase("GroupQueryAttention", [x(1, 3, 64), x(1, 3, 32), x(1, 3, 32), x(1, 2, 6, 16), x(1, 2, 6, 16),
                                           i32(8), np.array(9, np.int32), *TURNS], {"do_rotary": 1, **HEADS}, 3,
                   weights(6), rtol=1e-3, atol=1e-4)
"""Several queries behind a cache."""


def test_prompt(tmp_path: Path) -> None:
    check([case(5, 0, i32(5, 5), 5), case(5, 0, i32(5, 5), 5, packed=True), case(5, 0, i32(5, 5), 5, held=False),
           case(5, 0, i32(5, 5), 5, list(TURNS), do_rotary=1),
           case(5, 0, i32(5, 5), 5, list(TURNS), do_rotary=1, rotary_interleaved=1, packed=True),
           case(5, 9, i32(5, 5), 5), case(7, 0, i32(7, 7), 7, local_window_size=3),
           case(5, 0, i32(5, 5), 5, softcap=1.5),
           case(5, 0, i32(5, 5), 5, smooth_softmax=1), case(5, 0, i32(5, 5), 5, scale=0.3)], tmp_path)


def test_step(tmp_path: Path) -> None:
    check([case(1, 6, i32(7, 7), 7), case(1, 6, i32(5, 7), 7), case(1, 9, i32(4, 6), 6),
           case(1, 6, i32(5, 7), 7, held=False), case(1, 6, i32(5, 7), 7, list(TURNS), do_rotary=1),
           case(1, 6, i32(7, 7), 7, list(TURNS), do_rotary=1, packed=True, rotary_interleaved=1),
           case(1, 8, i32(9, 9), 9, local_window_size=4), case(1, 8, i32(9, 9), 9, softcap=2.0),
           ONE_ROW], tmp_path)


def normal(value: np.ndarray, factor: np.ndarray) -> np.ndarray:
    heads = value.reshape(*value.shape[:2], -1, 16)
    return (heads / np.sqrt(np.mean(heads * heads, -1, keepdims=True) + 1e-6) * factor).reshape(value.shape)


def test_norms(tmp_path: Path) -> None:
    """ONNX Runtime normalises queries and keys on GPUs only: it must equal normalising them before."""
    plain, q_norm, k_norm = case(5, 0, i32(5, 5), 5), x(16), x(16)
    query, key, *rest = plain.inputs
    assert query is not None and key is not None
    before = [normal(query, q_norm), normal(key, k_norm), *rest]
    within = [*plain.inputs, *(None,) * 7, q_norm, k_norm]
    model, feeds = model_of([NodeCase(plain.op, inputs, HEADS, constants=weights(6)) for inputs in (before, within)])
    found = run_package(model, feeds, tmp_path)
    np.testing.assert_allclose(found[0], found[1], 1e-4, 1e-5)


def test_bias_and_sinks(tmp_path: Path) -> None:
    none = [None, None, None]
    places = np.tile(np.arange(5, dtype=np.int64), (2, 1))
    check([case(5, 0, i32(5, 5), 5, [*none, x(2, 4, 5, 5)]), case(1, 6, i32(7, 7), 7, [*none, x(1, 1, 1, 7)]),
           case(5, 0, i32(5, 5), 5, [*none, None, x(4)]), case(1, 6, i32(7, 7), 7, [*none, None, x(4)]),
           case(5, 0, i32(5, 5), 5, [*TURNS, places], do_rotary=1),
           case(5, 0, i32(5, 5), 5, causal=0)], tmp_path)
