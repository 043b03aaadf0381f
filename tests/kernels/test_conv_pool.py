"""A convolution and the pooling of its result in one group."""

from __future__ import annotations

import numpy as np
import pytest

from meta_infer.hardware.profile import Profile
from meta_infer.ir.graph import Attr
from meta_infer.kernels.conv.conv_pool import CONV_POOL

from .chains import Part, conv_part, make_chain
from .conv_cases import PROFILES, random
from .harness import PROFILE, check_case, make_profile


def pool(op: str, kernel: int, stride: int, pads: tuple[int, ...] = (0, 0, 0, 0), dilation: int = 1) -> Part:
    attrs: dict[str, Attr] = {"kernel_shape": (kernel,) * 2, "strides": (stride,) * 2, "pads": pads, "ceil_mode": 0,
                              "dilations": (dilation,) * 2}
    if op == "AveragePool":
        attrs["count_include_pad"] = 0
    return Part(op, attrs=attrs)


@pytest.mark.parametrize("channels, size, out, kernel, stride, pads, act, pooling, profile", [
    (3, (21, 19), 21, (7, 7), 2, (3, 3, 3, 3), Part("Relu"), pool("MaxPool", 3, 2, (1, 1, 1, 1)), PROFILES[0]),
    (3, (17, 16), 8, (3, 3), 2, (0, 0, 0, 0), Part("Relu"), pool("MaxPool", 3, 2), PROFILES[1]),
    (11, (12, 9), 40, (3, 3), 1, (1, 1, 1, 1), Part("Silu"), pool("AveragePool", 2, 2), PROFILES[0]),
    (8, (9, 7), 13, (1, 3), 1, (0, 1, 0, 1), Part("Clip", attrs={"min": -1.0, "max": 1.0}),
     pool("AveragePool", 3, 1, (1, 1, 1, 1)), PROFILES[1]),
    (1, (5, 30), 67, (3, 5), 1, (2, 2, 2, 2), Part("Relu"), pool("MaxPool", 2, 3, dilation=2), PROFILES[0]),
])
def test_corners(channels: int, size: tuple[int, int], out: int, kernel: tuple[int, int], stride: int,
                 pads: tuple[int, ...], act: Part, pooling: Part, profile: Profile) -> None:
    rng = np.random.default_rng(out)
    parts = [conv_part(rng, "c", channels, out, kernel, strides=(stride,) * 2, pads=pads), act, pooling,
             Part("Add", {"shift": random(rng, out, 1, 1)})]
    case = make_chain({"x": random(rng, 2, channels, *size)}, parts, 2)
    assert check_case(case, CONV_POOL, rtol=1e-4, atol=1e-4, profile=profile, all_corners=True) >= 2


@pytest.mark.parametrize("constant", [True, False])
def test_scalars_in_the_epilogue_of_the_convolution(constant: bool) -> None:
    """As quantisation leaves them: the scale of an activation, read again after the pooling."""
    rng = np.random.default_rng(5)
    scale = {"scale": np.array(0.125, np.float32)}
    parts = [conv_part(rng, "c", 3, 13, (3, 3), pads=(1, 1, 1, 1)), Part("Div", scale, constant=constant),
             Part("Round"),
             Part("Mul", scale, constant=constant), pool("MaxPool", 2, 2), Part("Mul", scale, constant=constant)]
    case = make_chain({"x": random(rng, 2, 3, 11, 9)}, parts, 4)
    assert check_case(case, CONV_POOL, rtol=1e-4, atol=0.126, all_corners=True) >= 2


def test_refused() -> None:
    rng = np.random.default_rng(0)
    parts = [conv_part(rng, "c", 8, 8, (3, 3)), Part("Add", {"r": random(rng, 1, 8, 6, 6)}), pool("MaxPool", 2, 2)]
    assert not list(CONV_POOL.variants(make_chain({"x": random(rng, 1, 8, 8, 8)}, parts, 2).group, PROFILE))
    del parts[1]
    case = make_chain({"x": random(rng, 1, 8, 8, 8)}, parts, 1)
    assert len(list(CONV_POOL.variants(case.group, PROFILE))) == 1
    assert not list(CONV_POOL.variants(case.group, make_profile("riscv64")))
