"""Kernels stay small: a build of resnet18 must compile in seconds, and a second build lower and emit in about one.

Statements of loop IR are what lowering, emitting and compiling all pay for. Passes over channels are loops at run
time, not copies of the code.
"""

from __future__ import annotations

import numpy as np
import pytest

from meta_infer.ir.walk_loop import walk_stmts
from meta_infer.kernels.registry import kernels_for

from .harness import PROFILE, Step, layouts_of, make_group

MOST_STATEMENTS = 6000


@pytest.mark.parametrize("channels,size,stride", [(64, 56, 1), (64, 56, 2), (128, 28, 1), (256, 14, 1), (256, 14, 2),
                                                  (512, 7, 1), (1024, 7, 1)])
def test_dense_convolutions(channels: int, size: int, stride: int) -> None:
    out = channels * stride
    x, w = np.zeros((1, channels, size, size), np.float32), np.zeros((out, channels, 3, 3), np.float32)
    residual = np.zeros((1, out, -(-size // stride), -(-size // stride)), np.float32)
    attrs = {"kernel_shape": (3, 3), "strides": (stride, stride), "pads": (1, 1, 1, 1), "dilations": (1, 1), "group": 1}
    case = make_group("Conv", {"x": x, "w": w, "b": np.zeros(out, np.float32)}, attrs, constants=("w", "b"),
                      epilogue=[Step("Add", {"r": residual}), Step("Relu")])
    kernel = kernels_for("Conv")
    chosen, variant = next((k, v) for k in kernel for v in k.variants(case.group, PROFILE))
    lowering = chosen.lower(case.group, variant, layouts_of(variant, case.group), PROFILE)
    count = sum(1 for call in lowering.calls for _ in walk_stmts(call.func.body))
    assert count <= MOST_STATEMENTS, f"{variant.name} takes {count} statements"
