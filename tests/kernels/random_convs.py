"""Random convolutions of any number of spatial dims, grouped, strided, dilated, transposed: small, never empty."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from meta_infer.ir.graph import Attr
from meta_infer.ir.shapes import Symbol

from .conv_cases import conv_case, random
from .harness import Case, Step, make_group


def _channels(rng: np.random.Generator, grouped: bool, most: int) -> tuple[int, int, int]:
    """(input channels, output channels, groups)."""
    if not grouped:
        return int(rng.integers(1, most + 1)), int(rng.integers(1, most + 1)), 1
    groups = int(rng.integers(2, 9))
    each = max(1, most // groups)
    return groups * int(rng.integers(1, each + 1)), groups * int(rng.integers(1, each + 1)), groups


def any_conv(rng: np.random.Generator, rank: int, *, grouped: bool = False, dynamic: bool = False, most: int = 67,
             epilogue: Sequence[Step] = ()) -> Case:
    """A convolution of `rank` spatial dims."""
    size = {1: 40, 2: 14, 3: 7}[rank]
    while True:
        spatial = tuple(map(int, rng.integers(1, size + 1, rank)))
        kernel, strides = tuple(map(int, rng.integers(1, 5, rank))), tuple(map(int, rng.integers(1, 4, rank)))
        dilations, pads = tuple(map(int, rng.integers(1, 4, rank))), tuple(map(int, rng.integers(0, 4, 2 * rank)))
        if all(spatial[i] + pads[i] + pads[rank + i] > (kernel[i] - 1) * dilations[i] for i in range(rank)):
            break
    channels, out, groups = _channels(rng, grouped, most)
    return conv_case(rng, (int(rng.integers(1, 3)), channels, *spatial), out, kernel, strides=strides, pads=pads,
                     dilations=dilations, group=groups, bias=bool(rng.integers(2)), dynamic=dynamic, epilogue=epilogue)


def transposed_case(rng: np.random.Generator, shape: Sequence[int], weight: Sequence[int], attrs: dict[str, Attr], *,
                    dynamic: bool = False, epilogue: Sequence[Step] = ()) -> Case:
    """A ConvTranspose of `shape` [N, C, ...] with weights [C, out channels of a group, ...]."""
    n = len(shape) - 2
    full: dict[str, Attr] = {
        "kernel_shape": tuple(weight[2:]), "strides": (1,) * n, "pads": (0,) * 2 * n, "dilations": (1,) * n,
        "group": 1, "output_padding": (0,) * n} | attrs
    group = full["group"]
    assert isinstance(group, int)
    spatial = (Symbol(f"S{i}", min(size, 4), 64).dim for i, size in enumerate(shape[2:]))
    shapes = {"x": (Symbol("N", 1, 8).dim, shape[1], *spatial)}
    inputs = {"x": random(rng, *shape), "w": random(rng, *weight), "b": random(rng, weight[1] * group)}
    return make_group("ConvTranspose", inputs, full, constants=("w", "b"), epilogue=epilogue,
                      shapes=shapes if dynamic else None)


def any_transposed(rng: np.random.Generator, rank: int, *, dynamic: bool = False,
                   epilogue: Sequence[Step] = ()) -> Case:
    """A transposed convolution of `rank` spatial dims."""
    size = {1: 20, 2: 8, 3: 5}[rank]
    while True:
        spatial = tuple(map(int, rng.integers(4 if dynamic else 1, size + 1, rank)))
        kernel, strides = tuple(map(int, rng.integers(1, 6, rank))), tuple(map(int, rng.integers(1, 4, rank)))
        dilations, pads = tuple(map(int, rng.integers(1, 3, rank))), tuple(map(int, rng.integers(0, 3, 2 * rank)))
        extra = tuple(int(rng.integers(0, max(s, d))) for s, d in zip(strides, dilations, strict=True))
        out = [(spatial[i] - 1) * strides[i] + extra[i] + (kernel[i] - 1) * dilations[i] + 1 - pads[i] - pads[rank + i]
               for i in range(rank)]
        if min(out) > 0:
            break
    channels, out_channels, groups = _channels(rng, bool(rng.integers(2)), 40)
    attrs: dict[str, Attr] = {"strides": strides, "dilations": dilations, "pads": pads, "output_padding": extra,
                              "group": groups}
    return transposed_case(rng, (int(rng.integers(1, 3)), channels, *spatial),
                           (channels, out_channels // groups, *kernel), attrs, dynamic=dynamic, epilogue=epilogue)
