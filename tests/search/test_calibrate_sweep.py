"""The channel step: found in made-up times, and none where there is none."""

from __future__ import annotations

import numpy as np
import pytest

from meta_infer.search.calibrate.calibrate_sweep import find_step, steps, sweep_cases, widths

LANES = (1, 4, 8, 16)


def stairs(step: int, lanes: int, fixed: float = 5.0, noise: float = 0.0) -> dict[int, float]:
    rng = np.random.default_rng(step)
    return {width: (fixed + -(-width // step) * step) * float(np.exp(rng.normal(0, noise))) for width in widths(lanes)}


@pytest.mark.parametrize("noise", [0.0, 0.01])
@pytest.mark.parametrize("step", [1, 2, 4, 8, 16, 32])
def test_the_step_of_stairs_is_found(step: int, noise: float) -> None:
    assert find_step(stairs(step, 8, noise=noise)) == step


@pytest.mark.parametrize("lanes", LANES)
def test_every_step_that_is_looked_for_can_be_found(lanes: int) -> None:
    for step in (1, *steps(lanes)):
        assert find_step(stairs(step, lanes)) == step


def test_no_step_where_time_grows_evenly_or_not_at_all() -> None:
    for fixed in (0.0, 10.0, 1000.0):
        assert find_step({width: fixed + width for width in widths(8)}) == 1
    assert find_step(dict.fromkeys(widths(8), 3.0)) == 1


def test_a_costly_rest_shows_a_step_too() -> None:
    """Kernels that compute what is beyond whole registers one by one."""
    assert find_step({width: width // 8 * 8 + 6 * (width % 8) for width in widths(8)}) == 8


def test_small_steps_within_big_ones() -> None:
    assert find_step({width: -(-width // 16) * 16 + 0.1 * (-(-width // 4) * 4) for width in widths(8)}) == 16


def test_a_few_widths_are_enough_and_none_are_no_step() -> None:
    assert find_step({}) == find_step({8: 1.0}) == find_step({7: 1.0, 8: 1.0}) == 1
    assert find_step({7: 8.0, 8: 8.0, 9: 16.0}) == 8


@pytest.mark.parametrize("lanes", LANES)
def test_widths_reach_four_registers(lanes: int) -> None:
    found = widths(lanes)
    assert found[0] == 1 and max(found) == 4 * max(lanes, 4) + (1 if lanes >= 4 else -3)
    assert sweep_cases(lanes).keys() == set(found) and len(found) <= 40
    for width, case in sweep_cases(lanes).items():
        assert case.group.values["y"].shape[1] == width
