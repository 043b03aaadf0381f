"""DynamicQuantizeLSTM against ONNX Runtime's kernel, which also quantises activations: near, not equal."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .one_model import NodeCase, check, weights

RNG = np.random.default_rng(37)
STEPS, BATCH, SIZE, HIDDEN = 5, 2, 7, 6
HELD = weights(1, 2, 3, 8, 9, 10, 11)


def case(directions: int, per_row: bool, state: bool = False, **attrs: object) -> NodeCase:
    def quantised(rows: int) -> np.ndarray:
        return RNG.integers(-64, 64, (directions, rows, 4 * HIDDEN)).astype(np.int8)

    shape = (directions, 4 * HIDDEN) if per_row else (directions,)
    scale = [RNG.uniform(0.004, 0.01, shape).astype(np.float32) for _ in range(2)]
    point = np.zeros(shape, np.int8)
    start = [RNG.normal(size=(directions, BATCH, HIDDEN)).astype(np.float32) * 0.5 if state else None for _ in range(2)]
    inputs = [RNG.normal(size=(STEPS, BATCH, SIZE)).astype(np.float32), quantised(SIZE), quantised(HIDDEN),
              RNG.normal(size=(directions, 8 * HIDDEN)).astype(np.float32) * 0.1, None, *start, None,
              scale[0], point, scale[1], point]
    return NodeCase("DynamicQuantizeLSTM", inputs, {"hidden_size": HIDDEN, **attrs}, 3, HELD, rtol=0, atol=2e-2)


def test_lstm(tmp_path: Path) -> None:
    check([case(1, False), case(1, True, state=True), case(2, False, direction="bidirectional"),
           case(1, True, direction="reverse")], tmp_path)
