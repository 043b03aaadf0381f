"""Every dense kernel at widths this machine need not have: no vectors at all, and 16 lanes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from meta_infer.kernels.elementwise import ELEMENTWISE
from meta_infer.kernels.kernel import Kernel
from meta_infer.kernels.matmul.gemm import GEMM
from meta_infer.kernels.matmul.matmul_batched import MATMUL_BATCHED
from meta_infer.kernels.reduction.arg_reduce import ARG_REDUCE
from meta_infer.kernels.reduction.layer_norm import LAYER_NORM
from meta_infer.kernels.reduction.reduce import REDUCE
from meta_infer.kernels.reduction.softmax import SOFTMAX

from .harness import PROFILE, Case, Step, check_case, make_group

RNG = np.random.default_rng(0)


def _random(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


CASES: tuple[tuple[Kernel, Case], ...] = (
    (GEMM, make_group("MatMul", {"x": _random(7, 33), "w": _random(33, 37)}, constants=("w",),
                      epilogue=[Step("Add", {"b": _random(37)}), Step("Sigmoid")])),
    (GEMM, make_group("Gemm", {"x": _random(7, 33), "w": _random(3, 33), "c": _random(3)}, {"transB": 1},
                      constants=("w", "c"), epilogue=[Step("Relu")])),
    (MATMUL_BATCHED, make_group("MatMul", {"a": _random(2, 7, 5), "b": _random(2, 5, 35)})),
    (SOFTMAX, make_group("Softmax", {"x": _random(3, 35)}, {"axis": 1})),
    (SOFTMAX, make_group("LogSoftmax", {"x": _random(3, 35)}, {"axis": 0})),
    (LAYER_NORM, make_group("LayerNormalization", {"x": _random(3, 85), "scale": _random(85)},
                            {"axis": 1, "epsilon": 1e-5})),
    (REDUCE, make_group("ReduceProd", {"x": _random(3, 19)}, {"axes": (1,), "keepdims": True})),
    (REDUCE, make_group("ReduceMean", {"x": _random(3, 85)}, {"axes": (0,), "keepdims": False})),
    (ARG_REDUCE, make_group("ArgMax", {"x": _random(3, 19)}, {"axis": 0, "keepdims": True})),
    (ELEMENTWISE, make_group("Add", {"x": _random(2, 13, 3, 3), "y": _random(13, 1, 1)}, epilogue=[Step("Exp")])),
)


@pytest.mark.parametrize("bits", [0, 512])
@pytest.mark.parametrize("kernel, case", CASES, ids=[f"{k.name}-{c.group.label}" for k, c in CASES])
def test_width(kernel: Kernel, case: Case, bits: int) -> None:
    assert check_case(case, kernel, 1e-4, 1e-5, profile=replace(PROFILE, simd_bits=bits)) >= 1
