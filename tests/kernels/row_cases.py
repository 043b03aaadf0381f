"""Softmax and normalisations of rows of many lengths and numbers: all tails, tiles of several rows and their rest."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .conv_cases import random
from .harness import Case, Step, make_group


def norm(rng: np.random.Generator, *shape: int, axis: int = -1, bias: bool = True) -> Case:
    inner = shape[axis % len(shape):]
    return make_group("LayerNormalization", {"x": random(rng, *shape), "scale": random(rng, *inner),
                                             "bias": random(rng, *inner) if bias else None},
                      {"axis": axis % len(shape), "epsilon": 1e-5}, constants=("scale",))


def soft(rng: np.random.Generator, *shape: int, axis: int = -1, op: str = "Softmax") -> Case:
    return make_group(op, {"x": 5 * random(rng, *shape)}, {"axis": axis % len(shape)})


def row_cases(rng: np.random.Generator) -> Iterator[Case]:
    """Few, for every processor and every corner of the knobs."""
    yield soft(rng, 131, 45)
    yield soft(rng, 5, 3, op="LogSoftmax")
    yield soft(rng, 2, 5, 901, axis=1)
    yield norm(rng, 7, 31, 21)
    yield norm(rng, 9, 3, 10, axis=1, bias=False)
    yield make_group("InstanceNormalization", {"x": random(rng, 2, 5, 3, 9), "scale": random(rng, 5),
                                               "bias": random(rng, 5)}, {"epsilon": 1e-5}, epilogue=[Step("Relu")])
