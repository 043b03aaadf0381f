"""com.microsoft's QuantizeLinear and DequantizeLinear, which take 16-bit integers at any opset."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from .one_model import NodeCase, check, weights

RNG = np.random.default_rng(23)


@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.uint16, np.int16])
def test_there_and_back(kind: type, tmp_path: Path) -> None:
    info = np.iinfo(kind)
    x = RNG.normal(size=(3, 5, 4)).astype(np.float32)
    scale, scales = np.array(4 / info.max, np.float32), RNG.uniform(2, 5, 5).astype(np.float32) / info.max
    point, points = (RNG.integers(info.min, info.max, shape).astype(kind) for shape in ((), 5))
    q = RNG.integers(info.min, info.max + 1, (3, 5, 4)).astype(kind)
    into, out = "QuantizeLinear", "DequantizeLinear"
    check([NodeCase(into, [x, scale, point]), NodeCase(into, [x, scales, points], {"axis": 1}, constants=weights(1, 2)),
           NodeCase(out, [q, scale, point]), NodeCase(out, [q, scales, points], {"axis": 1}),
           NodeCase(out, [q, scale])], tmp_path, opset=12)
