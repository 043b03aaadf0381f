"""ArgMax and ArgMin over every axis, with ties, of several types."""

from __future__ import annotations

import numpy as np
import pytest

from meta_infer.ir.shapes import Symbol
from meta_infer.kernels.reduction.arg_reduce import ARG_REDUCE
from meta_infer.support.dtypes import FLOAT32

from .harness import PROFILE, Step, check_case, layouts_of, make_group, reference, run_group


@pytest.mark.parametrize("shape, axis", [((5,), 0), ((3, 7), 1), ((3, 37), 0), ((2, 3, 19), 1), ((4, 1), 1),
                                         ((1, 1), 0), ((0, 3), 1), ((2, 3, 1), 1)])
def test_axes_with_ties(shape: tuple[int, ...], axis: int) -> None:
    x = np.random.default_rng(0).integers(-2, 3, shape)
    for op, dtype, keep in (("ArgMax", np.float32, True), ("ArgMin", np.int64, False)):
        attrs = {"axis": axis, "keepdims": keep, "select_last_index": keep == bool(axis)}
        assert check_case(make_group(op, {"x": x.astype(dtype)}, attrs), ARG_REDUCE) == 1


def test_dynamic_dims_with_an_epilogue() -> None:
    b, s = Symbol("b", 1, 9).dim, Symbol("s", 1, 99).dim
    for batch, steps in ((1, 1), (3, 40)):
        x = np.random.default_rng(1).standard_normal((batch, steps, 12)).astype(np.float32)
        case = make_group("ArgMax", {"x": x}, {"axis": 1, "keepdims": False}, shapes={"x": (b, s, 12)},
                          epilogue=[Step("Cast", attrs={"to": FLOAT32})], keep=("out",))
        (variant,) = ARG_REDUCE.variants(case.group, PROFILE)
        got = run_group(case.group, ARG_REDUCE, variant, layouts_of(variant, case.group), case.arrays, seed=1)
        for name, want in reference(case).items():
            np.testing.assert_array_equal(got[name], want)
