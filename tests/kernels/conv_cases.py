"""Random convolution groups for the tests of convolution kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from meta_infer.ir.shapes import Symbol

from .harness import Case, Step, make_group, make_profile

PROFILES = (make_profile(), make_profile("x86-64-v2"))
"""Eight lanes (or more) with multiply-add where this machine has it, and four lanes without."""


def random(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def conv_case(rng: np.random.Generator, shape: Sequence[int], out_channels: int, kernel: Sequence[int], *,
              strides: Sequence[int] = (), pads: Sequence[int] = (), dilations: Sequence[int] = (), group: int = 1,
              bias: bool = True, dynamic: bool = False, epilogue: Sequence[Step] = (),
              keep: Sequence[str] = (), ceiling: int = 640) -> Case:
    """A Conv of `shape` [N, C, ...]; `dynamic` makes N and the spatial dims symbols: from the least
    size that the window fits into, to `ceiling`."""
    n = len(kernel)
    shapes = None
    if dynamic:
        windows = [(kernel[i] - 1) * (dilations[i] if dilations else 1) + 1
                   - (pads[i] + pads[n + i] if pads else 0) for i in range(n)]
        spatial = [Symbol(f"S{i}", max(1, least), ceiling).dim for i, least in enumerate(windows)]
        shapes = {"x": (Symbol("N", 1, 8).dim, shape[1], *spatial)}
    inputs = {"x": random(rng, *shape), "w": random(rng, out_channels, shape[1] // group, *kernel),
              "b": random(rng, out_channels) if bias else None}
    attrs = {"kernel_shape": tuple(kernel), "strides": tuple(strides) or (1,) * n,
             "pads": tuple(pads) or (0,) * (2 * n), "dilations": tuple(dilations) or (1,) * n, "group": group}
    return make_group("Conv", inputs, attrs, constants=("w", "b") if bias else ("w",), epilogue=epilogue,
                      shapes=shapes, keep=keep)


def random_conv(rng: np.random.Generator, *, most_in: int = 67, depthwise: bool = False, pointwise: bool = False,
                dynamic: bool = False) -> Case:
    """Any dense (or depthwise) 2-D convolution of small size whose output is not empty."""
    while True:
        shape = (int(rng.integers(1, 3)), int(rng.integers(1, most_in + 1)), *map(int, rng.integers(1, 20, 2)))
        kernel = (1, 1) if pointwise else tuple(map(int, rng.integers(1, 6, 2)))
        strides = (1, 1) if pointwise else tuple(map(int, rng.integers(1, 4, 2)))
        dilations = (1, 1) if pointwise else tuple(map(int, rng.integers(1, 3, 2)))
        pads = (0,) * 4 if pointwise else tuple(map(int, rng.integers(0, 4, 4)))
        sizes = [shape[2 + i] + pads[i] + pads[2 + i] - (kernel[i] - 1) * dilations[i] for i in range(2)]
        if min(sizes) >= 1:
            break
    out = shape[1] if depthwise else int(rng.integers(1, 68))
    return conv_case(rng, shape, out, kernel, strides=strides, pads=pads, dilations=dilations,
                     group=shape[1] if depthwise else 1, bias=bool(rng.integers(2)), dynamic=dynamic)
