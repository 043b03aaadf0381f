"""A kernel that writes over its input gives what it gave with two buffers."""

from __future__ import annotations

import numpy as np
import pytest

from meta_infer.ir.builder import Builder
from meta_infer.ir.interpret_loop import interpret
from meta_infer.ir.loop import LoopFunc, minimum
from meta_infer.ir.verify_loop import verify_func
from meta_infer.schedule.in_place import write_in_place
from meta_infer.support.dtypes import FLOAT32, INT32


def add_kernel(out_dtype=FLOAT32) -> LoopFunc:  # type: ignore[no-untyped-def]
    b = Builder("add")
    x, y = b.input("x", FLOAT32), b.input("y", FLOAT32)
    z = b.output("z", out_dtype)
    with b.chunks(3) as chunk:
        start = b.let(chunk * 8)
        with b.loop(start, minimum(start + 8, 20), 4) as i:
            value = b.load(x, i, 4) + b.load(y, i, 4)
            b.store(z, i, value) if out_dtype == FLOAT32 else b.store(z, i, b.load(z, i, 4))
    return b.finish()[0]


@pytest.mark.parametrize("source", ["x", "y"])
def test_same_numbers_with_one_buffer_less(source: str) -> None:
    func = add_kernel()
    merged = write_in_place(func, source, "z")
    verify_func(merged)
    assert [(p.name, p.mode) for p in merged.params] == [(n, "inout" if n == source else "in") for n in ("x", "y")]
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(20).astype(np.float32), rng.standard_normal(20).astype(np.float32)
    z = np.zeros(20, np.float32)
    interpret(func, [x.copy(), y.copy(), z], ())
    buffers = [x.copy(), y.copy()]
    interpret(merged, buffers, ())
    np.testing.assert_array_equal(buffers["xy".index(source)], z)


def test_what_cannot_share_is_refused() -> None:
    func = add_kernel()
    with pytest.raises(ValueError, match="no parameters"):
        write_in_place(func, "q", "z")
    with pytest.raises(ValueError, match="cannot share"):
        write_in_place(add_kernel(INT32), "x", "z")
    with pytest.raises(ValueError, match="cannot share"):
        write_in_place(func, "x", "y")
    with pytest.raises(ValueError, match="cannot share"):
        write_in_place(write_in_place(func, "x", "z"), "x", "y")
