"""A package for a chip that lacks most ops: the simpler ops compute what ONNX Runtime does."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from meta_infer import api
from tests.checklist.models import model, node, saved

CHIP = """accelerator:
  name: bare
  supported_ops: [conv2d, matmul, add, mul, div, exp, max, min, relu, neg, sub, sqrt, reduce_max, reduce_sum,
                  reduce_mean, concat, slice, transpose, pad]
"""


def test_decomposed_package_is_right(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    weights = {"w": rng.standard_normal((6, 2, 3, 3)), "t": rng.standard_normal((6, 4, 2, 2)), "s": np.ones(4),
               "b": np.zeros(4), "r": np.array([5, 2, 64]), "lw": rng.standard_normal((2, 12, 64)) / 8,
               "lr": rng.standard_normal((2, 12, 3)), "lb": rng.standard_normal((2, 24)) / 4}
    nodes = [node("Conv", "x w", "c", group=3, pads=[1, 1, 1, 1], strides=[2, 2]), node("HardSwish", "c", "h"),
             node("ConvTranspose", "h t", "d", strides=[2, 2]), node("InstanceNormalization", "d s b", "n"),
             node("Sigmoid", "n", "g"), node("Reshape", "g r", "f"),
             node("LSTM", "f lw lr lb", "l", hidden_size=3, direction="bidirectional"),
             node("Softmax", "l", "y", axis=3)]
    path = saved(model(nodes, (5, 6, 8, 4), (5, 2, 2, 3), weights=weights), tmp_path)
    (tmp_path / "bare.yaml").write_text(CHIP)
    result = api.build(path, hardware=str(tmp_path / "bare.yaml"))
    decided = {decision.op: decision.verdict for decision in result.trace.decisions}
    assert decided == {"Conv": "decomposed", "HardSwish": "decomposed", "ConvTranspose": "decomposed",
                       "InstanceNormalization": "decomposed", "Sigmoid": "decomposed", "LSTM": "decomposed",
                       "Softmax": "decomposed", "Reshape": "native"}
    assert result.comparisons and max(c.distance.relative for c in result.comparisons) < 1e-5
