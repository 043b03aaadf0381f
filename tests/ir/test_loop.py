"""Equality of loop expressions: what decides whether two kernels are one."""

from __future__ import annotations

import math

from meta_infer.ir.loop import Const, Type, const
from meta_infer.support.dtypes import FLOAT32, FLOAT64

F32 = Type(FLOAT32)


def test_zeros_of_either_sign_are_different_constants() -> None:
    assert const(0.0, F32) != const(-0.0, F32)
    assert const(0.0, F32) == const(0.0, F32) and hash(const(0.0, F32)) == hash(const(0.0, F32))


def test_nan_is_one_constant_and_types_count() -> None:
    assert const(math.nan, F32) == const(math.nan, F32)
    assert const(1.0, F32) != const(1.0, Type(FLOAT64))
    assert Const(1) != const(1.0, F32) and Const(True) != Const(1)
