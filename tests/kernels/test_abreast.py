"""Epilogues with math functions: several columns at once, whatever the tile's width and the operands' shapes."""

from __future__ import annotations

import numpy as np
import pytest

from meta_infer.hardware.profile import Profile
from meta_infer.kernels.conv.conv_depthwise import CONV_DEPTHWISE
from meta_infer.kernels.conv.conv_padded import CONV_PADDED
from meta_infer.kernels.conv.conv_pointwise import CONV_POINTWISE
from meta_infer.kernels.kernel import Kernel

from .conv_cases import PROFILES, conv_case, random
from .harness import Step, check_case


@pytest.mark.parametrize("profile", PROFILES, ids=lambda p: f"{p.simd_bits}")
@pytest.mark.parametrize("width", [3, 5, 13])
@pytest.mark.parametrize("kernel", [CONV_DEPTHWISE, CONV_POINTWISE, CONV_PADDED], ids=lambda k: k.name)
def test_residual_gate_and_scalar(kernel: Kernel, width: int, profile: Profile) -> None:
    rng = np.random.default_rng(width)
    channels = 19
    steps = [Step("Add", {"r": random(rng, 1, channels, 2, width)}), Step("Sigmoid"),
             Step("Mul", {"g": random(rng, channels, 1, 1)}, at=1), Step("Sub", {"s": random(rng, 1)}), Step("Tanh")]
    depthwise = kernel is CONV_DEPTHWISE
    case = conv_case(rng, (1, channels, 2, width), channels, (1, 3) if depthwise else (1, 1),
                     pads=(0, 1, 0, 1) if depthwise else (), group=channels if depthwise else 1, epilogue=steps,
                     keep=("e0",), dynamic=False)
    assert check_case(case, kernel, rtol=1e-4, atol=1e-5, profile=profile) == 1
