"""The inner loops of the kernels that multiply: whole vectors of the instruction set, and nothing spilled to memory.

That is all that can be said of processors which this machine is not, and an emulator is not either.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pytest

from meta_infer.ir.loop import LoopFunc
from meta_infer.kernels.registry import kernel_named
from tests.kernels.conv_cases import conv_case, random
from tests.kernels.harness import Case, layouts_of, make_group, make_profile

from .assembly import assembly, innermost_loops

MULTIPLY_ADD = {
    "x86-64-v2": re.compile(r"^mulps\s.*xmm"),
    "x86-64-v3": re.compile(r"^vfmadd\d+ps\s.*ymm"),
    "x86-64-v4": re.compile(r"^vfmadd\d+ps\s.*zmm"),
    "aarch64": re.compile(r"^fmla\s+v\d+\.4s"),
}
# A vector that goes to or comes from the stack.
SPILL = {
    "x86-64-v2": re.compile(r"^mov[au]ps\s.*\(%rsp\)"),
    "x86-64-v3": re.compile(r"^vmov[au]ps\s.*\(%rsp\)"),
    "x86-64-v4": re.compile(r"^vmov[au]ps\s.*\(%rsp\)"),
    "aarch64": re.compile(r"^(ldr|str|ldp|stp)\s+q.*\[sp"),
}


def _case(kernel: str) -> Case:
    rng = np.random.default_rng(0)
    match kernel:
        case "conv_pointwise":
            return conv_case(rng, (1, 128, 28, 28), 128, (1, 1))
        case "gemm":
            return make_group("MatMul", {"x": random(rng, 96, 128), "w": random(rng, 128, 128)}, constants=("w",))
        case "matmul_batched":
            return make_group("MatMul", {"x": random(rng, 2, 96, 64), "w": random(rng, 2, 64, 96)})
        case "attention":
            return make_group("Attention", {name: random(rng, 1, 2, 96, 64) for name in "qkv"}, {"scale": 0.125})
    return conv_case(rng, (1, 64, 28, 28), 64, (3, 3), pads=(1,) * 4)


def _funcs(kernel_name: str, isa: str) -> Iterator[LoopFunc]:
    """The functions of the kernel's first variant that does the case."""
    kernel, profile, case = kernel_named(kernel_name), make_profile(isa), _case(kernel_name)
    variant = next(iter(kernel.variants(case.group, profile)))
    for call in kernel.lower(case.group, variant, layouts_of(variant, case.group), profile).calls:
        yield call.func


@pytest.mark.parametrize("isa", MULTIPLY_ADD)
@pytest.mark.parametrize("kernel", ["conv_direct", "conv_pointwise", "gemm", "matmul_batched", "attention"])
def test_inner_loops(kernel: str, isa: str) -> None:
    multiplies, spills = MULTIPLY_ADD[isa], SPILL[isa]
    busy = []
    for func in _funcs(kernel, isa):
        for loop in innermost_loops(assembly([func], isa)):
            count = sum(bool(multiplies.match(i)) for i in loop)
            if count >= 8:
                busy.append((count, loop))
    assert busy, "no inner loop of whole vectors"
    for count, loop in busy:
        spilled = [i for i in loop if spills.match(i)]
        # Without a fused multiply-add every product passes through one more register, and some go to memory for that.
        most = count // 2 + 2 if isa == "x86-64-v2" else count // 14
        assert len(spilled) <= most, f"{kernel} for {isa} spills: {spilled}"
    count, loop = max(busy, key=lambda one: one[0] / len(one[1]))
    assert count / len(loop) >= (0.15 if isa == "x86-64-v2" else 0.4), "\n".join(loop)
