"""Random groups of 8-bit integers, over the full range of their types, for the tests of integer kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from meta_infer.ir.shapes import Dim, Symbol
from meta_infer.support.dtypes import FLOAT32, UINT8

from .harness import Case, Shapes, Step, make_group


def numbers(rng: np.random.Generator, dtype: type, *shape: int) -> np.ndarray:
    """Elements of all sizes, the least and the greatest often."""
    info = np.iinfo(dtype)
    found = rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    return np.where(rng.random(shape) < 0.2, rng.choice(np.array([info.min, info.max], dtype), shape), found)


def requantised(rng: np.random.Generator, channels: tuple[int, ...]) -> list[Step]:
    """Bias in int32, scale per channel, rounding, zero point, uint8: what a quantised product ends with."""
    return [Step("Add", {"bias": rng.integers(-5000, 5000, channels, np.int32)}), Step("Cast", attrs={"to": FLOAT32}),
            Step("Mul", {"scale": (rng.random(channels) * 1e-3).astype(np.float32)}), Step("Round"),
            Step("Add", {"point": np.array(77, np.float32)}), Step("Clip", attrs={"min": 0.0, "max": 255.0}),
            Step("Cast", attrs={"to": UINT8})]


def int8_conv(rng: np.random.Generator, shape: Sequence[int], out_channels: int, kernel: tuple[int, int], *,
              strides: tuple[int, int] = (1, 1), pads: tuple[int, ...] = (0, 0, 0, 0),
              dilations: tuple[int, int] = (1, 1), group: int = 1, types: tuple[type, type] = (np.uint8, np.int8),
              zero: int | None = None, known_zero: bool = True, w_zero: bool = False, requantise: bool = False,
              dynamic: bool = False) -> Case:
    """A ConvInteger of `shape` [N, C, H, W]. Its zero point is a constant or an input; the weights' one per channel."""
    inputs: dict[str, np.ndarray | None] = {
        "x": numbers(rng, types[0], *shape), "w": numbers(rng, types[1], out_channels, shape[1] // group, *kernel),
        "zero": None if zero is None else np.array(zero, types[0]),
        "points": numbers(rng, types[1], out_channels, 1, 1, 1) if w_zero else None}
    epilogue = requantised(rng, (out_channels, 1, 1)) if requantise else []
    constants = ["w", *(["zero"] if known_zero and zero is not None else []), *(["points"] if w_zero else []),
                 *(name for step in epilogue for name in step.extra)]
    sizes: list[Dim] = [Symbol("N", 1, 4).dim, shape[1], Symbol("H", 5, 64).dim, Symbol("W", 5, 64).dim]
    shapes: Shapes | None = {"x": tuple(sizes)} if dynamic else None
    return make_group("ConvInteger", inputs, {"kernel_shape": kernel, "strides": strides, "pads": pads,
                                              "dilations": dilations, "group": group},
                      constants=constants, epilogue=epilogue, shapes=shapes)


def random_int8_conv(rng: np.random.Generator, *, pointwise: bool = False, depthwise: bool = False,
                     dynamic: bool = False) -> Case:
    """Channels 1 to 67, odd sizes, kernels to 3, strides and dilations to 2, uneven pads, every kind of operand."""
    kernel, strides, dilations = ((1, 1), (1, 1), (1, 1)) if pointwise else (
        tuple(rng.integers(1, 4, 2).tolist()) for _ in range(3))
    strides, dilations = (tuple(min(2, v) for v in pair) for pair in (strides, dilations))
    pads = (0, 0, 0, 0) if pointwise else tuple(rng.integers(0, 3, 4).tolist())
    least = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    channels, out = rng.integers(1, 68, 2).tolist()
    height, width = (int(rng.integers(max(size, 5), size + 14)) for size in least)
    types = (np.uint8 if rng.random() < 0.7 else np.int8, np.int8 if rng.random() < 0.7 else np.uint8)
    info = np.iinfo(types[0])
    zero = int(rng.integers(info.min, info.max, endpoint=True)) if rng.random() < 0.7 else None
    return int8_conv(rng, (int(rng.integers(1, 3)), channels, height, width), channels if depthwise else out, kernel,
                     strides=strides, pads=pads, dilations=dilations, group=channels if depthwise else 1, types=types,
                     zero=zero, known_zero=rng.random() < 0.5, w_zero=rng.random() < 0.3,
                     requantise=rng.random() < 0.5, dynamic=dynamic)


def int8_product(rng: np.random.Generator, shape: Sequence[int], columns: int, *,
                 types: tuple[type, type] = (np.uint8, np.int8), zero: int | None = None, known_zero: bool = True,
                 w_zero: bool = False, requantise: bool = False, dynamic: bool = False) -> Case:
    """A MatMulInteger of `shape` [..., K] with weights [K, columns]; `dynamic` makes the leading dims symbols."""
    inputs: dict[str, np.ndarray | None] = {
        "a": numbers(rng, types[0], *shape), "w": numbers(rng, types[1], shape[-1], columns),
        "zero": None if zero is None else np.array(zero, types[0]),
        "points": numbers(rng, types[1], 1, columns) if w_zero else None}
    epilogue = requantised(rng, (columns,)) if requantise else []
    constants = ["w", *(["zero"] if known_zero and zero is not None else []), *(["points"] if w_zero else []),
                 *(name for step in epilogue for name in step.extra)]
    lead: list[Dim] = [Symbol(f"M{i}", 1, 64).dim for i in range(len(shape) - 1)]
    return make_group("MatMulInteger", inputs, {}, constants=constants, epilogue=epilogue,
                      shapes={"a": (*lead, shape[-1])} if dynamic else None)
