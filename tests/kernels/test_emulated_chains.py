"""Groups of several anchors on another processor, under emulation."""

from __future__ import annotations

import numpy as np

from meta_infer.kernels.conv.conv_chain import CONV_CHAIN
from meta_infer.kernels.conv.conv_pool import CONV_POOL
from meta_infer.kernels.conv.squeeze import SQUEEZE
from tests.emulators import need_emulator

from .chains import Part, conv_part, make_chain
from .conv_cases import random
from .emulated import check_emulated
from .harness import make_profile
from .test_conv_pool import pool


def test_aarch64() -> None:
    need_emulator("aarch64")
    rng = np.random.default_rng(0)
    depthwise = conv_part(rng, "d", 21, 21, (3, 3), pads=(1, 1, 1, 1), group=21)
    x = {"x": random(rng, 1, 21, 7, 9)}
    separable = make_chain(x, [depthwise, Part("Relu"), conv_part(rng, "p", 21, 10)], 2)
    inverted = make_chain({"x": random(rng, 1, 5, 7, 9)}, [
        conv_part(rng, "e", 5, 21), Part("Silu"), depthwise, Part("Relu"), conv_part(rng, "p", 21, 5)], 4)
    squeeze = make_chain(x, [Part("GlobalAveragePool"), conv_part(rng, "a", 21, 6), Part("Relu"),
                             conv_part(rng, "b", 6, 21), Part("Sigmoid")], 3)
    pooled = make_chain({"x": random(rng, 1, 3, 15, 14)}, [
        conv_part(rng, "c", 3, 9, (3, 3), strides=(2, 2)), Part("Relu"), pool("MaxPool", 3, 2, (1, 1, 1, 1))], 2)
    pairs = [(separable, CONV_CHAIN), (inverted, CONV_CHAIN), (squeeze, SQUEEZE), (pooled, CONV_POOL)]
    assert check_emulated(pairs, make_profile("aarch64")) >= len(pairs)
