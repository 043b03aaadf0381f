"""Every variant of kernels that walk rows and planes, at the corners of its knobs, under emulation."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from meta_infer.kernels.registry import kernels_for
from tests.emulators import need_emulator

from .conv_cases import random
from .emulated import check_emulated
from .grain_cases import maps, moves, sums
from .harness import Case, make_group, make_profile
from .row_cases import row_cases
from .test_resize import attrs_of, resize


def _pools(rng: np.random.Generator) -> Iterator[Case]:
    attrs = {"kernel_shape": (3, 2), "strides": (1, 2), "pads": (1, 1, 0, 1), "dilations": (1, 1), "ceil_mode": False}
    yield make_group("MaxPool", {"x": random(rng, 2, 9, 10, 31)}, attrs)
    yield make_group("AveragePool", {"x": random(rng, 2, 9, 10, 31)}, {**attrs, "count_include_pad": False})
    yield make_group("GlobalAveragePool", {"x": random(rng, 3, 19, 9, 11)})


def _moves(rng: np.random.Generator) -> Iterator[Case]:
    for shape, perm in (((2, 19, 37), (0, 2, 1)), ((33, 3, 8), (2, 1, 0)), ((2, 12, 3, 5), (0, 2, 3, 1))):
        yield make_group("Transpose", {"x": random(rng, *shape)}, {"perm": perm})
    yield resize(rng, (1, 9, 5, 7), (1, 1, 2, 3), attrs_of("nearest"))
    yield resize(rng, (1, 9, 5, 7), (1, 1, 1.7, 0.6), attrs_of("linear"))


@pytest.mark.parametrize("isa", ["x86-64-v2", "aarch64", "riscv64"])
def test_all_corners(isa: str) -> None:
    need_emulator(isa)
    rng = np.random.default_rng(6)
    cases = [*_pools(rng), *_moves(rng), *moves(rng), *maps(rng), *sums(rng), *row_cases(rng)]
    chosen = [(case, kernel) for case in cases for kernel in kernels_for(case.group.anchor.op)]
    assert check_emulated(chosen, make_profile(isa)) >= len(cases), "every case has a variant"
