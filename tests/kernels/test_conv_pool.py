"""A convolution and the pooling of its result in one group."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from meta_infer.hardware.profile import Profile
from meta_infer.ir import interpret_loop
from meta_infer.ir.graph import Attr
from meta_infer.ir.loop import Expr, Mad
from meta_infer.kernels.conv.conv_pool import CONV_POOL
from meta_infer.kernels.kernel import Refusal

from .chains import Part, conv_part, make_chain
from .conv_cases import PROFILES, random
from .harness import PROFILE, check_case, layouts_of, make_profile, run_group


def pool(op: str, kernel: int, stride: int, pads: tuple[int, ...] = (0, 0, 0, 0), dilation: int = 1) -> Part:
    attrs: dict[str, Attr] = {"kernel_shape": (kernel,) * 2, "strides": (stride,) * 2, "pads": pads, "ceil_mode": 0,
                              "dilations": (dilation,) * 2}
    if op == "AveragePool":
        attrs["count_include_pad"] = 0
    return Part(op, attrs=attrs)


@pytest.mark.parametrize("channels, size, out, kernel, stride, pads, act, pooling, profile", [
    (3, (21, 19), 21, (7, 7), 2, (3, 3, 3, 3), Part("Relu"), pool("MaxPool", 3, 2, (1, 1, 1, 1)), PROFILES[0]),
    (3, (17, 16), 8, (3, 3), 2, (0, 0, 0, 0), Part("Relu"), pool("MaxPool", 3, 2), PROFILES[1]),
    (11, (12, 9), 40, (3, 3), 1, (1, 1, 1, 1), Part("Silu"), pool("AveragePool", 2, 2), PROFILES[0]),
    (8, (9, 7), 13, (1, 3), 1, (0, 1, 0, 1), Part("Clip", attrs={"min": -1.0, "max": 1.0}),
     pool("AveragePool", 3, 1, (1, 1, 1, 1)), PROFILES[1]),
    (1, (5, 30), 67, (3, 5), 1, (2, 2, 2, 2), Part("Relu"), pool("MaxPool", 2, 3, dilation=2), PROFILES[0]),
])
def test_corners(channels: int, size: tuple[int, int], out: int, kernel: tuple[int, int], stride: int,
                 pads: tuple[int, ...], act: Part, pooling: Part, profile: Profile) -> None:
    rng = np.random.default_rng(out)
    parts = [conv_part(rng, "c", channels, out, kernel, strides=(stride,) * 2, pads=pads), act, pooling,
             Part("Add", {"shift": random(rng, out, 1, 1)})]
    case = make_chain({"x": random(rng, 2, channels, *size)}, parts, 2)
    assert check_case(case, CONV_POOL, rtol=1e-4, atol=1e-4, profile=profile, all_corners=True) >= 2


@pytest.mark.parametrize("size, pooling", [(16, pool("MaxPool", 2, 2)), (14, pool("MaxPool", 2, 2)),
                                           (15, pool("MaxPool", 3, 3))])
def test_chunks_make_no_rows_that_they_do_not_pool(size: int, pooling: Part, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of windows that share no rows, however many lines are pooled at a time and in however many chunks."""
    made = Counter[str]()
    value_of = interpret_loop._Machine.value

    def counting(machine: interpret_loop._Machine, expr: Expr) -> interpret_loop.Register:
        made["multiply-adds"] += isinstance(expr, Mad)
        return value_of(machine, expr)

    monkeypatch.setattr(interpret_loop._Machine, "value", counting)
    rng = np.random.default_rng(size)
    parts = [conv_part(rng, "c", 1, 8, (3, 3), pads=(1, 1, 1, 1)), pooling]
    case = make_chain({"x": random(rng, 1, 1, size, size)}, parts, 1)
    variant, = CONV_POOL.variants(case.group, PROFILES[1])
    found: dict[str, int] = {}
    for knobs in ({"lines": lines, "parts": parts} for lines in (1, 2, 4, 8) for parts in (1, 2, 4, 8)):
        tuned = CONV_POOL.tune(case.group, variant, knobs, PROFILES[1])
        if not isinstance(tuned, Refusal):
            made.clear()
            run_group(case.group, CONV_POOL, tuned, layouts_of(tuned, case.group), case.arrays, PROFILES[1],
                      engine="interpret")
            found[str(knobs)] = made["multiply-adds"]
    assert len(found) >= 6
    assert len(set(found.values())) == 1, found


@pytest.mark.parametrize("constant", [True, False])
def test_scalars_in_the_epilogue_of_the_convolution(constant: bool) -> None:
    """As quantisation leaves them: the scale of an activation, read again after the pooling."""
    rng = np.random.default_rng(5)
    scale = {"scale": np.array(0.125, np.float32)}
    parts = [conv_part(rng, "c", 3, 13, (3, 3), pads=(1, 1, 1, 1)), Part("Div", scale, constant=constant),
             Part("Round"),
             Part("Mul", scale, constant=constant), pool("MaxPool", 2, 2), Part("Mul", scale, constant=constant)]
    case = make_chain({"x": random(rng, 2, 3, 11, 9)}, parts, 4)
    assert check_case(case, CONV_POOL, rtol=1e-4, atol=0.126, all_corners=True) >= 2


def test_refused() -> None:
    rng = np.random.default_rng(0)
    parts = [conv_part(rng, "c", 8, 8, (3, 3)), Part("Add", {"r": random(rng, 1, 8, 6, 6)}), pool("MaxPool", 2, 2)]
    assert not list(CONV_POOL.variants(make_chain({"x": random(rng, 1, 8, 8, 8)}, parts, 2).group, PROFILE))
    del parts[1]
    case = make_chain({"x": random(rng, 1, 8, 8, 8)}, parts, 1)
    assert len(list(CONV_POOL.variants(case.group, PROFILE))) == 1
    assert not list(CONV_POOL.variants(case.group, make_profile("riscv64")))
