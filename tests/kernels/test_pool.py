"""Max, average and global pooling in blocked and plain layouts."""

from __future__ import annotations

import numpy as np
import pytest

from meta_infer.ir.shapes import Symbol
from meta_infer.kernels.image.global_pool import GLOBAL_POOL
from meta_infer.kernels.image.pool import POOL
from meta_infer.kernels.kernel import Kernel, Refusal

from .conv_cases import PROFILES, random
from .harness import Case, Step, check_case, make_group

CASES = [
    ((2, 19, 12, 13), {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)}),
    ((1, 8, 20, 21), {"kernel_shape": (2, 2), "strides": (2, 2), "ceil_mode": True}),
    ((1, 5, 7, 30), {"kernel_shape": (3, 5), "strides": (1, 1), "pads": (0, 2, 2, 1)}),
    ((1, 9, 11, 12), {"kernel_shape": (3, 3), "strides": (3, 2), "dilations": (2, 3), "pads": (1, 2, 1, 2)}),
    ((1, 3, 1, 1), {"kernel_shape": (3, 3), "strides": (1, 1), "pads": (1, 1, 1, 1)}),
    ((2, 7, 45), {"kernel_shape": (4,), "strides": (3,), "pads": (2, 1), "ceil_mode": True}),
    ((1, 9, 5, 6, 7), {"kernel_shape": (2, 3, 2), "strides": (2, 1, 2), "pads": (0, 1, 0, 1, 1, 1)}),
    ((1, 4, 9, 40), {"kernel_shape": (1, 13), "strides": (1, 1), "pads": (0, 6, 0, 6)}),
]


def pool_case(op: str, shape: tuple[int, ...], attrs: dict, dynamic: bool = False,
              steps: tuple[Step, ...] = ()) -> Case:
    n = len(shape) - 2
    full = {"strides": (1,) * n, "pads": (0,) * 2 * n, "dilations": (1,) * n, "ceil_mode": False} | attrs
    if op == "AveragePool":
        full.setdefault("count_include_pad", False)
    spatial = (Symbol(f"S{i}", min(size, 7), 99).dim for i, size in enumerate(shape[2:]))
    shapes = {"x": (Symbol("N", 1, 4).dim, shape[1], *spatial)}
    return make_group(op, {"x": random(np.random.default_rng(0), *shape)}, full if not op.startswith("Global") else {},
                      epilogue=steps, shapes=shapes if dynamic else None)


def check(case: Case, kernel: Kernel, index: int = 0) -> int:
    return check_case(case, kernel, profile=PROFILES[index % 2])


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("index", range(len(CASES)))
def test_windows(index: int, op: str) -> None:
    shape, attrs = CASES[index]
    assert check(pool_case(op, shape, attrs, dynamic=index % 3 == 1), POOL, index) == 2


@pytest.mark.parametrize("index", [0, 1, 5])
def test_average_that_counts_padding(index: int) -> None:
    shape, attrs = CASES[index]
    assert check(pool_case("AveragePool", shape, attrs | {"count_include_pad": True}), POOL, index) == 2


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
def test_all_corners(op: str) -> None:
    """Tiles of one column and of more than fit between the borders, chunks of a line and of whole planes."""
    attrs = {"kernel_shape": (3, 2), "strides": (1, 2), "pads": (1, 1, 0, 1)}
    for dynamic in (False, True):
        assert check_case(pool_case(op, (2, 9, 10, 31), attrs, dynamic), POOL, all_corners=True) >= 10
    narrow = pool_case(op, (1, 9, 40, 5), attrs)
    (blocked, *_) = POOL.variants(narrow.group, PROFILES[0])
    found = POOL.tune(narrow.group, blocked, {"columns": 12}, PROFILES[0])
    assert isinstance(found, Refusal) and found.reason == "shape"


def test_integer_maximum_is_plain() -> None:
    x = np.random.default_rng(1).integers(-128, 127, (1, 3, 6, 6)).astype(np.int8)
    attrs = {"kernel_shape": (2, 2), "strides": (1, 1), "pads": (1, 1, 0, 0), "dilations": (1, 1), "ceil_mode": False}
    assert check(make_group("MaxPool", {"x": x}, attrs), POOL) == 1


def test_epilogue() -> None:
    rng = np.random.default_rng(2)
    steps = (Step("Add", {"r": random(rng, 2, 19, 6, 7)}), Step("Relu"))
    assert check(pool_case("MaxPool", *CASES[0], steps=steps), POOL) == 2


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("op", ["GlobalAveragePool", "GlobalMaxPool"])
@pytest.mark.parametrize("shape", [(2, 19, 7, 7), (1, 8, 1, 1), (1, 3, 35), (2, 5, 3, 4, 5)])
def test_global(shape: tuple[int, ...], op: str, dynamic: bool) -> None:
    ones = (1,) * (len(shape) - 2)
    steps = (Step("Mul", {"s": random(np.random.default_rng(3), shape[1], *ones)}),)
    assert check(pool_case(op, shape, {}, dynamic, steps), GLOBAL_POOL, len(shape)) == 3


@pytest.mark.parametrize("op", ["GlobalAveragePool", "GlobalMaxPool"])
def test_global_at_all_corners(op: str) -> None:
    """Planes of a few vectors and some more; chunks of one plane, and of more than there are."""
    for shape in ((3, 19, 9, 11), (2, 70, 3)):
        variants = list(GLOBAL_POOL.variants(pool_case(op, shape, {}).group, PROFILES[0]))
        assert check_case(pool_case(op, shape, {}), GLOBAL_POOL, 1e-5, 1e-5, all_corners=True) > 2 * len(variants)
