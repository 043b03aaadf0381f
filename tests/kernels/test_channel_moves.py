"""Channels in another order: Concat of any parts, shuffles, slices; against the ops one by one."""

from __future__ import annotations

import numpy as np
import pytest

from meta_infer.hardware.profile import Profile
from meta_infer.ir.shapes import Dim, Symbol
from meta_infer.kernels.movement.channel_moves import CHANNEL_MOVES, moves_of
from meta_infer.kernels.movement.concat import CONCAT
from meta_infer.kernels.registry import kernels_for

from .chains import Part, make_chain
from .conv_cases import PROFILES, random
from .harness import PROFILE, Case, check_case, make_group

H, W = Symbol("H", 1, 99).dim, Symbol("W", 1, 99).dim


def part_slice(shape: tuple[Dim, ...], first: int, size: int, step: int, reads: str) -> Part:
    zeros, ones = (0,) * len(shape), (1,) * len(shape)
    return Part("Slice", {}, {"starts": (0, first, *zeros[2:]), "sizes": (shape[0], size, *shape[2:]),
                              "steps": (1, step, *ones[2:])}, reads=reads)


def shuffled(rng: np.random.Generator, a: int, b: int, groups: int, size: tuple[int, int], slices: bool,
             dynamic: bool = False) -> Case:
    n, channels = 2, a + b
    spatial: tuple[Dim, ...] = (H, W) if dynamic else size
    inputs = {"a": random(rng, n, a, *size), "b": random(rng, n, b, *size)}
    parts = [Part("Concat", {"b": inputs["b"]}, {"axis": 1}),
             Part("Reshape", attrs={"shape": (n, groups, channels // groups, *spatial)}),
             Part("Transpose", attrs={"perm": (0, 2, 1, 3, 4)}),
             Part("Reshape", attrs={"shape": (n, channels, *spatial)})]
    shapes = {"a": (n, a, *spatial), "b": (n, b, *spatial)} if dynamic else None
    if not slices:
        return make_chain(inputs, parts, 2, shapes=shapes)
    half = channels // 2
    shape = (n, channels, *spatial)
    parts += [part_slice(shape, 0, half, 1, "v3"), part_slice(shape, half, channels - half, 1, "v3"),
              part_slice(shape, channels - 1, (channels + 1) // 2, -2, "v3")]
    return make_chain(inputs, parts, 6, shapes=shapes, outputs=("v4", "v5", "v6"))


@pytest.mark.parametrize("profile", PROFILES, ids=lambda p: f"{p.simd_bits}")
@pytest.mark.parametrize("a, b, groups, size, slices", [
    (5, 5, 2, (3, 5), True), (29, 29, 2, (9, 9), True), (1, 2, 3, (1, 1), False), (40, 24, 4, (2, 70), True)])
def test_shuffles(a: int, b: int, groups: int, size: tuple[int, int], slices: bool, profile: Profile) -> None:
    case = shuffled(np.random.default_rng(a), a, b, groups, size, slices)
    assert check_case(case, CHANNEL_MOVES, rtol=0, atol=0, profile=profile) == 1


def test_chunks_of_all_sizes() -> None:
    rng = np.random.default_rng(2)
    assert check_case(shuffled(rng, 9, 7, 2, (2, 71), True), CHANNEL_MOVES, 0, 0, all_corners=True) == 3
    assert check_case(shuffled(rng, 3, 3, 2, (5, 7), False), CHANNEL_MOVES, 0, 0, all_corners=True) == 2
    parts = {"x": random(rng, 2, 5, 9, 31), "y": random(rng, 2, 4, 9, 31)}
    assert check_case(make_group("Concat", parts, {"axis": 1}), CONCAT, 0, 0, all_corners=True) == 4


def test_dynamic_positions() -> None:
    assert check_case(shuffled(np.random.default_rng(1), 9, 3, 2, (4, 11), True, True), CHANNEL_MOVES, 0, 0) == 1


@pytest.mark.parametrize("profile", PROFILES, ids=lambda p: f"{p.simd_bits}")
@pytest.mark.parametrize("channels", [(5, 3), (58, 58), (1, 1, 1, 13), (8, 3, 16), (67, 2)])
def test_concat(channels: tuple[int, ...], profile: Profile) -> None:
    rng = np.random.default_rng(sum(channels))
    case = make_group("Concat", {f"x{i}": random(rng, 2, c, 5, 3) for i, c in enumerate(channels)}, {"axis": 1})
    names = [variant.name for variant in CONCAT.variants(case.group, profile)]
    assert names == ["plain", "merged"]
    assert check_case(case, CONCAT, rtol=0, atol=0, profile=profile) == 2


def test_refused() -> None:
    """What moves more than channels, or few know how to: no variant, from any kernel."""
    rng = np.random.default_rng(2)
    inputs = {"a": random(rng, 1, 4, 6, 6)}
    rows = [Part("Reshape", attrs={"shape": (1, 4, 3, 2, 6)}), Part("Transpose", attrs={"perm": (0, 1, 3, 2, 4)}),
            Part("Reshape", attrs={"shape": (1, 4, 6, 6)})]
    case = make_chain(inputs, rows, 1)
    assert moves_of(case.group) is None
    assert not [kernel for kernel in kernels_for("Transpose") if list(kernel.variants(case.group, PROFILE))]
