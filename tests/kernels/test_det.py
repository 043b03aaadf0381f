"""Determinants: pivots that must be swapped, singular matrices, batches, sizes of 0 and 1."""

from __future__ import annotations

import numpy as np

from meta_infer.ir.shapes import Symbol
from meta_infer.kernels.reduction.det import DET
from meta_infer.ops.registry import op_named

from .harness import check_case, make_group


def test_samples() -> None:
    for sample in op_named("Det").samples(np.random.default_rng(0)):
        assert check_case(make_group("Det", {"x": sample.inputs[0]}), DET, 1e-5, 1e-6) == 1


def test_dynamic_sizes_and_doubles() -> None:
    b, n = Symbol("b", 0, 9).dim, Symbol("n", 0, 40).dim
    for batch, size in ((3, 7), (1, 1), (0, 4), (2, 0)):
        x = np.random.default_rng(size).normal(size=(batch, size, size))
        assert check_case(make_group("Det", {"x": x}, shapes={"x": (b, n, n)}), DET, 1e-9, 1e-9) == 1
