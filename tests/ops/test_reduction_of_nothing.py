"""The largest and smallest of no elements, for every kind of element numpy can show."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from meta_infer.ops.registry import op_named

CASES = [("ReduceMax", np.float32, -np.inf), ("ReduceMin", np.float32, np.inf), ("ReduceMax", np.int8, -128),
         ("ReduceMin", np.uint8, 255), ("ReduceMax", np.bool_, False), ("ReduceMin", np.bool_, True),
         ("ReduceMax", ml_dtypes.bfloat16, -np.inf), ("ReduceMin", ml_dtypes.bfloat16, np.inf)]


@pytest.mark.parametrize("op, dtype, want", CASES)
def test_of_an_empty_tensor(op: str, dtype: type, want: object) -> None:
    attrs = {"axes": (0,), "keepdims": False}
    (found,) = op_named(op).reference(attrs, [np.zeros(0, dtype)])
    assert found.shape == () and found == np.asarray(want, dtype)
