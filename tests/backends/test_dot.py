"""Sums of neighbouring products: exact at the ends of every type, one instruction where the target has one."""

from __future__ import annotations

import re

import numpy as np
import pytest

from meta_infer.hardware.isa import isa_named
from meta_infer.ir.builder import Builder
from meta_infer.ir.interpret_loop import interpret
from meta_infer.ir.loop import LoopFunc, bitcast, dot, splat
from meta_infer.ir.loop_parser import parse_func
from meta_infer.ir.loop_text import print_func
from meta_infer.ir.verify_loop import verify_func
from meta_infer.support.dtypes import INT8, INT16, INT32, UINT8, DType, dtype_named
from meta_infer.support.errors import InternalError
from tests.kernels.harness import Memory, compile_funcs, host_isa

from .assembly import assembly

FORMS = ((INT16, INT16, 2), (UINT8, INT8, 4), (INT8, INT8, 4), (UINT8, UINT8, 4))
LANES = (1, 4, 8, 16)


def product(a: DType, b: DType, terms: int, lanes: int) -> LoopFunc:
    """z += x * y, the few elements of x repeated for every lane."""
    pen = Builder(f"dot_{a}_{b}_{lanes}")
    x, y, z = pen.input("x", a), pen.input("y", b), pen.inout("z", INT32)
    with pen.chunks(1):
        together = bitcast(pen.load(x, 0, terms), dtype_named(f"int{terms * a.bits}"))
        left = bitcast(splat(together, lanes), a)
        pen.store(z, 0, dot(left, pen.load(y, 0, terms * lanes), pen.load(z, 0, lanes)))
    return pen.finish()[0]


FUNCS = {(form, lanes): product(*form, lanes) for form in FORMS for lanes in LANES}


@pytest.mark.parametrize("isa", [host_isa(), *(["x86-64-v2"] if "x86" in host_isa() else [])])
def test_every_form_is_exact(isa: str) -> None:
    rng = np.random.default_rng(3)
    compiled = compile_funcs(list(FUNCS.values()), isa)
    for ((a, b, terms), lanes), func in FUNCS.items():
        verify_func(func)
        assert parse_func(print_func(func)) == func
        for ends in (False, True):
            x, y, z = (rng.choice(np.array(t.range, t.numpy), n) if ends else
                       rng.integers(*t.range, n, t.numpy, endpoint=True)
                       for t, n in ((a, terms), (b, terms * lanes), (INT32, lanes)))
            want = z.copy()
            interpret(func, [x, y, want], [])
            memory = [Memory("x", a, x.size, x), Memory("y", b, y.size, y), Memory("z", INT32, z.size, z)]
            compiled.run(func, memory, [])
            np.testing.assert_array_equal(memory[2].array, want, func.name)


INSTRUCTIONS = (
    ("x86-64-v3", r"vpmaddwd", FORMS[0], 8), ("x86-64-v4", r"vpmaddwd.*zmm", FORMS[0], 16),
    ("x86-64-v3-vnni", r"vpdpwssd.*ymm", FORMS[0], 8), ("x86-64-v4-vnni", r"vpdpwssd.*zmm", FORMS[0], 16),
    ("x86-64-v3-vnni", r"vpdpbusd.*ymm", FORMS[1], 8), ("x86-64-v4-vnni", r"vpdpbusd.*zmm", FORMS[1], 16),
    ("aarch64", r"smull2\s", FORMS[0], 4), ("aarch64-dot", r"sdot\s", FORMS[2], 4),
    ("aarch64-dot", r"udot\s", FORMS[3], 4), ("aarch64-i8mm", r"usdot\s", FORMS[1], 4),
)


def test_sums_that_fit_in_16_bits() -> None:
    """Weights of 7 bits beside activations of 8: one path of x86-64; the promise is checked when interpreted."""
    pen = Builder("dot_narrow")
    x, y, z = pen.input("x", UINT8), pen.input("y", INT8), pen.inout("z", INT32)
    with pen.chunks(1):
        pen.store(z, 0, dot(pen.load(x, 0, 32), pen.load(y, 0, 32), pen.load(z, 0, 8), narrow=True))
    func = pen.finish()[0]
    assert parse_func(print_func(func)) == func
    left, right, start = np.full(32, 255, np.uint8), np.tile(np.array([64, 64, -64, -64], np.int8), 8), np.arange(8)
    want = start.astype(np.int32)
    interpret(func, [left, right, want], [])
    for isa in {host_isa(), *(["x86-64-v2"] if "x86" in host_isa() else [])}:
        memory = [Memory("x", UINT8, 32, left), Memory("y", INT8, 32, right), Memory("z", INT32, 8, start)]
        compile_funcs([func], isa).run(func, memory, [])
        np.testing.assert_array_equal(memory[2].array, want)
    with pytest.raises(InternalError, match="16 bits"):
        interpret(func, [left, np.full(32, 65, np.int8), want], [])


@pytest.mark.parametrize(("isa", "instruction", "form", "lanes"), INSTRUCTIONS)
def test_instruction(isa: str, instruction: str, form: tuple[DType, DType, int], lanes: int) -> None:
    assert re.search(instruction, assembly([FUNCS[form, lanes]], isa)), isa_named(isa)
