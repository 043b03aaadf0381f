"""Convolution and pooling kernels in the loop interpreter, which checks every index they touch."""

from __future__ import annotations

import numpy as np
import pytest

from meta_infer.kernels.registry import kernels_for

from .conv_cases import PROFILES, conv_case
from .harness import Case, check_case
from .test_pool import pool_case

RNG = np.random.default_rng(11)
CASES = [
    conv_case(RNG, (1, 5, 4, 7), 6, (3, 3), pads=(1, 1, 1, 1)),
    conv_case(RNG, (2, 5, 3, 5), 6, (3, 2), pads=(0, 1, 2, 1), strides=(2, 1), dynamic=True),
    conv_case(RNG, (1, 5, 3, 7), 9, (1, 1)),
    conv_case(RNG, (1, 5, 3, 4), 9, (1, 1), dynamic=True),
    conv_case(RNG, (1, 6, 4, 6), 6, (3, 3), pads=(1, 1, 1, 1), group=6),
    conv_case(RNG, (1, 6, 4, 6), 6, (3, 3), pads=(1, 1, 1, 1), group=6, dynamic=True),
    conv_case(RNG, (1, 3, 5, 6), 5, (3, 3), pads=(1, 1, 1, 1)),
    pool_case("MaxPool", (1, 5, 5, 6), {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1), "strides": (2, 2)}),
    pool_case("GlobalAveragePool", (1, 5, 3, 4), {}),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.group.label)
def test_every_kernel_stays_inside_its_buffers(case: Case) -> None:
    counts = [check_case(case, kernel, 1e-4, 1e-4, PROFILES[1], ("interpret",))
              for kernel in kernels_for(case.group.anchor.op)]
    assert sum(counts) >= 2
