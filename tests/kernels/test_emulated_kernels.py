"""Every variant of kernels that multiply, at the corners of its knobs, and math functions, under emulation."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from meta_infer.kernels.kernel import Kernel
from meta_infer.kernels.registry import kernels_for
from tests.emulators import need_emulator

from .conv_cases import conv_case, random, random_conv
from .emulated import check_emulated
from .harness import Case, Step, make_group, make_profile


def _convolutions(rng: np.random.Generator, count: int) -> Iterator[Case]:
    for _ in range(count):
        yield random_conv(rng)
        yield random_conv(rng, pointwise=True)
        yield random_conv(rng, depthwise=True)
    yield conv_case(rng, (1, 19, 13, 11), 18, (3, 3), pads=(1, 1, 1, 1),
                    epilogue=[Step("Add", {"r": random(rng, 1, 18, 13, 11)}), Step("Relu")])
    yield conv_case(rng, (2, 3, 17, 15), 12, (5, 3), strides=(2, 2), pads=(2, 1, 2, 1))
    yield conv_case(rng, (1, 24, 7, 9), 40, (3, 3), pads=(1, 0, 1, 2), group=8)
    yield conv_case(rng, (2, 10, 21), 9, (3,), strides=(2,), pads=(1, 1))
    yield conv_case(rng, (1, 6, 5, 6, 7), 11, (2, 3, 3), pads=(0, 1, 1, 1, 1, 0), dilations=(1, 1, 2))


def _transposed(rng: np.random.Generator) -> Iterator[Case]:
    for kernel, stride, group in ((2, 2, 1), (3, 2, 1), (4, 3, 2), (1, 2, 1)):
        attrs = {"kernel_shape": (kernel, kernel), "strides": (stride, stride), "pads": (0, 0, 0, 0),
                 "dilations": (1, 1), "output_padding": (0, 0), "group": group}
        yield make_group("ConvTranspose", {"x": random(rng, 1, 10, 6, 5), "w": random(rng, 10, 9, kernel, kernel)},
                         attrs, constants=("w",))


def _products(rng: np.random.Generator) -> Iterator[Case]:
    for m, k, n in ((1, 67, 33), (3, 16, 16), (13, 40, 5), (75, 21, 70)):
        x, w = random(rng, m, k), random(rng, k, n)
        yield make_group("MatMul", {"x": x, "w": w}, constants=("w",))
        yield make_group("MatMul", {"x": x, "w": w})
    yield make_group("Gemm", {"x": random(rng, 7, 9), "w": random(rng, 11, 9), "c": random(rng, 11)},
                     {"alpha": 0.5, "beta": 2.0, "transA": 0, "transB": 1}, constants=("w",), epilogue=[Step("Relu")])


def _attention(rng: np.random.Generator) -> Iterator[Case]:
    for sizes, mask, attrs in (((2, 4, 2, 21, 70, 7, 9), random(rng, 21, 70), {"q_order": "bshd", "causal": True}),
                               ((1, 2, 2, 9, 5, 16, 8), rng.random((1, 1, 1, 5)) < 0.7, {"k_order": "bhds"})):
        batch, heads, kv_heads, queries, keys, size, width = sizes
        q = random(rng, *((batch, queries, heads, size) if "q_order" in attrs else (batch, heads, queries, size)))
        k = random(rng, *((batch, kv_heads, size, keys) if "k_order" in attrs else (batch, kv_heads, keys, size)))
        inputs = {"q": q, "k": k, "v": random(rng, batch, kv_heads, keys, width), "mask": mask}
        yield make_group("Attention", inputs, {"scale": 0.4, "empty": "zero", **attrs})


def _functions(rng: np.random.Generator) -> Iterator[Case]:
    """Gelu, Silu and Softmax make exponentials of their own; long vectors of all lanes and what is left."""
    for op, attrs in (("Gelu", {"approximate": "none"}), ("Gelu", {"approximate": "tanh"}), ("Silu", {}),
                      ("Softmax", {"axis": 1})):
        yield make_group(op, {"x": 3 * random(rng, 3, 45)}, attrs)


def _recurrences(rng: np.random.Generator) -> Iterator[Case]:
    for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        inputs = {"x": random(rng, 3, 2, 5), "w": random(rng, 2, gates * 11, 5), "r": random(rng, 2, gates * 11, 11),
                  "b": random(rng, 2, gates * 22)}
        yield make_group(op, inputs, {"hidden_size": 11, "direction": "bidirectional"}, constants=("w", "r", "b"),
                         outputs=("y", "y_h"))


@pytest.mark.parametrize("isa", ["x86-64-v2", "aarch64", "riscv64"])
def test_all_corners(isa: str, full: bool) -> None:
    need_emulator(isa)
    rng, profile = np.random.default_rng(5), make_profile(isa)
    cases = [*_convolutions(rng, 12 if full else 1), *_transposed(rng), *_products(rng), *_attention(rng),
             *_functions(rng), *_recurrences(rng)]
    chosen: list[tuple[Case, Kernel]] = [(case, kernel) for case in cases
                                         for kernel in kernels_for(case.group.anchor.op)]
    assert check_emulated(chosen, profile) >= len(cases), "every case has a variant"
