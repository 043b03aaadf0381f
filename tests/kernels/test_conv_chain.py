"""Chains that end in a 1x1 convolution: gated, separable, inverted; and that nothing else takes them."""

from __future__ import annotations

import numpy as np
import pytest

from meta_infer.hardware.profile import Profile
from meta_infer.ir.shapes import Dim, Symbol
from meta_infer.kernels.conv.conv_chain import CONV_CHAIN
from meta_infer.kernels.registry import kernels_for

from .chains import Part, conv_part, make_chain
from .conv_cases import PROFILES, random
from .harness import PROFILE, Case, check_case, make_profile

CLIP = Part("Clip", attrs={"min": 0.0, "max": 6.0})


def check(case: Case, profile: Profile = PROFILE, all_corners: bool = True) -> int:
    return check_case(case, CONV_CHAIN, rtol=1e-4, atol=1e-4, profile=profile, all_corners=all_corners)


def symbolic(case_shape: tuple[int, ...]) -> dict[str, tuple[Dim, ...]]:
    return {"x": (Symbol("N", 1, 8).dim, case_shape[1], Symbol("H", 5, 640).dim, Symbol("W", 5, 640).dim)}


@pytest.mark.parametrize("kernel, stride, pads, dilation, size, channels, out, dynamic, profile", [
    ((3, 3), 1, (1, 1, 1, 1), 1, (9, 13), 19, 21, False, PROFILES[0]),
    ((3, 3), 1, (1, 1, 1, 1), 1, (9, 13), 19, 21, True, PROFILES[1]),
    ((3, 3), 2, (1, 0, 0, 1), 1, (12, 7), 8, 5, False, PROFILES[1]),
    ((5, 5), 2, (2, 2, 2, 2), 1, (11, 11), 67, 40, False, PROFILES[0]),
    ((3, 1), 1, (2, 0, 2, 0), 2, (6, 5), 2, 1, True, PROFILES[0]),
])
def test_separable(kernel: tuple[int, int], stride: int, pads: tuple[int, ...], dilation: int, size: tuple[int, int],
                   channels: int, out: int, dynamic: bool, profile: Profile) -> None:
    rng = np.random.default_rng(out)
    parts = [conv_part(rng, "d", channels, channels, kernel, strides=(stride,) * 2, pads=pads,
                       dilations=(dilation,) * 2, group=channels), CLIP, conv_part(rng, "p", channels, out, bias=False),
             Part("Relu")]
    shape = (2, channels, *size)
    case = make_chain({"x": random(rng, *shape)}, parts, 2, shapes=symbolic(shape) if dynamic else None)
    assert check(case, profile) >= (1 if dynamic else 2)


@pytest.mark.parametrize("stride, size, narrow, wide, dynamic, profile", [
    (1, (9, 13), 16, 43, False, PROFILES[0]), (2, (13, 6), 24, 40, False, PROFILES[1]),
    (1, (5, 7), 11, 29, True, PROFILES[1]), (2, (8, 8), 8, 24, True, PROFILES[0])])
def test_inverted(stride: int, size: tuple[int, int], narrow: int, wide: int, dynamic: bool, profile: Profile) -> None:
    rng = np.random.default_rng(wide)
    parts = [conv_part(rng, "e", narrow, wide), Part("HardSwish"),
             conv_part(rng, "d", wide, wide, (3, 3), strides=(stride,) * 2, pads=(1, 1, 1, 1), group=wide),
             Part("Mul", {"scale": random(rng, wide, 1, 1)}), Part("HardSigmoid", attrs={"alpha": 0.2, "beta": 0.5}),
             conv_part(rng, "p", wide, narrow)]
    x = random(rng, 2, narrow, *size)
    if stride == 1:
        parts.append(Part("Add", {"x": x}))                      # the residual is the chain's own input
    case = make_chain({"x": x}, parts, 5, shapes=symbolic(x.shape) if dynamic else None)
    assert check(case, profile) >= (1 if dynamic else 2)


def test_inverted_with_math() -> None:
    rng = np.random.default_rng(1)
    parts = [conv_part(rng, "e", 16, 48), Part("Silu"),
             conv_part(rng, "d", 48, 48, (5, 5), pads=(2, 2, 2, 2), group=48), Part("Silu"),
             conv_part(rng, "p", 48, 16), Part("Sigmoid")]
    assert check(make_chain({"x": random(rng, 1, 16, 10, 10)}, parts, 4)) >= 2


@pytest.mark.parametrize("dynamic, profile", [(False, PROFILES[0]), (True, PROFILES[1])])
def test_gated(dynamic: bool, profile: Profile) -> None:
    rng = np.random.default_rng(2)
    x, gate = random(rng, 2, 19, 6, 7), random(rng, 2, 19, 1, 1)
    parts = [Part("Mul", {"gate": gate}, at=1), Part("Relu"), conv_part(rng, "p", 19, 30),
             Part("Add", {"r": random(rng, 30, 6, 7)}), CLIP]
    shapes = {**symbolic(x.shape), "gate": (Symbol("N", 1, 8).dim, 19, 1, 1)} if dynamic else None
    if dynamic:
        parts.pop(3)
    case = make_chain({"x": x, "gate": gate}, parts, 2, shapes=shapes)
    assert check(case, profile) >= (1 if dynamic else 2)


def test_operands_that_vary_within_the_chain_are_refused() -> None:
    """What is read in between has no place of its own in the buffers."""
    rng = np.random.default_rng(3)
    depthwise = conv_part(rng, "d", 8, 8, (3, 3), pads=(1, 1, 1, 1), group=8)
    between = Part("Add", {"r": random(rng, 1, 8, 5, 5)})
    case = make_chain({"x": random(rng, 1, 8, 5, 5)}, [depthwise, between, conv_part(rng, "p", 8, 8)], 2)
    assert not list(CONV_CHAIN.variants(case.group, PROFILE))
    dense = conv_part(rng, "c", 8, 8, (3, 3), pads=(1, 1, 1, 1))
    case = make_chain({"x": random(rng, 1, 8, 5, 5)}, [dense, conv_part(rng, "p", 8, 8)], 1)
    assert not list(CONV_CHAIN.variants(case.group, PROFILE))
    assert not list(CONV_CHAIN.variants(case.group, make_profile("riscv64")))


def test_other_kernels_refuse_chains() -> None:
    rng = np.random.default_rng(4)
    parts = [conv_part(rng, "d", 8, 8, (3, 3), pads=(1, 1, 1, 1), group=8), conv_part(rng, "p", 8, 8)]
    case = make_chain({"x": random(rng, 1, 8, 5, 5)}, parts, 1)
    takers = [kernel.name for kernel in kernels_for("Conv") if list(kernel.variants(case.group, PROFILE))]
    assert set(takers) <= {"conv_chain"}
