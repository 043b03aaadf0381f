"""The gate of squeeze-and-excitation as one group."""

from __future__ import annotations

import numpy as np
import pytest

from meta_infer.hardware.profile import Profile
from meta_infer.ir.shapes import Symbol
from meta_infer.kernels.conv.squeeze import SQUEEZE

from .chains import Part, conv_part, make_chain
from .conv_cases import PROFILES, random
from .harness import PROFILE, check_case, make_profile

SIGMOID, RELU = Part("Sigmoid"), Part("Relu")


def parts(rng: np.random.Generator, channels: int, hidden: int, act: Part, gate: Part, bias: bool = True) -> list[Part]:
    return [Part("GlobalAveragePool"), conv_part(rng, "a", channels, hidden, bias=bias), act,
            conv_part(rng, "b", hidden, channels, bias=bias), gate]


@pytest.mark.parametrize("profile", PROFILES, ids=lambda p: f"{p.simd_bits}")
@pytest.mark.parametrize("channels, hidden, size, batch",
                         [(67, 9, (7, 5), 2), (8, 24, (1, 1), 1), (40, 16, (3, 14), 3)])
def test_sizes(channels: int, hidden: int, size: tuple[int, int], batch: int, profile: Profile) -> None:
    rng = np.random.default_rng(channels)
    gate = Part("HardSigmoid", attrs={"alpha": 0.2, "beta": 0.5}) if hidden > 9 else SIGMOID
    act = RELU if hidden > 9 else Part("Silu")
    nodes = parts(rng, channels, hidden, act, gate, bias=hidden > 9)
    case = make_chain({"x": random(rng, batch, channels, *size)}, nodes, 3)
    assert check_case(case, SQUEEZE, rtol=1e-4, atol=1e-5, profile=profile) == 1


def test_all_corners() -> None:
    """One part for every few channel blocks, and more parts than tiles of output blocks."""
    rng = np.random.default_rng(4)
    case = make_chain({"x": random(rng, 2, 131, 5, 4)}, parts(rng, 131, 19, RELU, SIGMOID), 3)
    count = 5 if PROFILES[0].simd_bits >= 512 else 7
    assert check_case(case, SQUEEZE, rtol=1e-4, atol=1e-5, all_corners=True) == count


def test_dynamic() -> None:
    rng = np.random.default_rng(1)
    case = make_chain({"x": random(rng, 2, 19, 4, 6)}, parts(rng, 19, 5, RELU, SIGMOID), 3,
                      shapes={"x": (Symbol("N", 1, 8).dim, 19, Symbol("H", 1, 99).dim, Symbol("W", 1, 99).dim)})
    assert check_case(case, SQUEEZE, rtol=1e-4, atol=1e-5) == 1


def test_refused() -> None:
    rng = np.random.default_rng(2)
    x = {"x": random(rng, 1, 8, 3, 3)}
    between = [Part("GlobalAveragePool"), RELU, *parts(rng, 8, 8, RELU, SIGMOID)[1:]]
    assert not list(SQUEEZE.variants(make_chain(x, between, 4).group, PROFILE))
    case = make_chain(x, parts(rng, 8, 8, RELU, SIGMOID), 3)
    assert not list(SQUEEZE.variants(case.group, make_profile("riscv64")))
