"""Groups of more elements than the default grain, so that every value of `grain` cuts them in its own way."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .conv_cases import random
from .harness import Case, Step, make_group


def moves(rng: np.random.Generator) -> Iterator[Case]:
    """Copies of rows: of all kernels that have the knob `grain` alone, and rows of odd sizes."""
    yield make_group("Transpose", {"x": random(rng, 9, 31, 67)}, {"perm": (1, 0, 2)})
    yield make_group("Slice", {"x": random(rng, 2, 24, 19, 31)},
                     {"starts": (0, 8, 1, 0), "sizes": (2, 16, 18, 31), "steps": (1, 1, 1, 1)})
    parts = {"a": random(rng, 1, 8, 53, 53), "b": random(rng, 1, 5, 53, 53)}
    yield make_group("Concat", parts, {"axis": 1})
    yield make_group("Gather", {"x": random(rng, 3, 11, 67), "i": rng.integers(-11, 11, (97,))}, {"axis": 1})
    yield make_group("Gather", {"x": random(rng, 2, 40), "i": rng.integers(0, 40, (129, 65))}, {"axis": 1})
    yield make_group("GatherND", {"x": random(rng, 2, 9, 67), "i": rng.integers(0, 9, (2, 150, 1))}, {"batch_dims": 1})
    yield make_group("GatherElements", {"x": random(rng, 7, 301), "i": rng.integers(0, 7, (65, 301))}, {"axis": 0})
    yield make_group("Expand", {"x": random(rng, 131, 1)}, {"shape": (131, 131)})
    yield make_group("Pad", {"x": random(rng, 5, 57, 59)},
                     {"pads": (0, 1, 2, 0, 2, 1), "mode": "constant", "value": 1.5})


def maps(rng: np.random.Generator) -> Iterator[Case]:
    """Elementwise groups: cheap and long nodes, rows, blocked ones in any order and by channels that end in a block."""
    yield make_group("Add", {"x": random(rng, 5, 4133), "y": random(rng, 4133)})
    yield make_group("Gelu", {"x": 3 * random(rng, 3, 7001)}, {"approximate": "none"})
    yield make_group("Mul", {"x": random(rng, 2, 16, 29, 31), "y": random(rng, 2, 16, 29, 31)}, epilogue=[Step("Silu")])
    yield make_group("Mul", {"x": random(rng, 2, 19, 12, 67), "y": random(rng, 2, 19, 1, 1)},
                     epilogue=[Step("Sigmoid"), Step("Add", {"z": random(rng, 2, 19, 12, 1)})])


def sums(rng: np.random.Generator) -> Iterator[Case]:
    """Reductions along the last dim and across it, of several chunks each way."""
    yield make_group("ReduceMean", {"x": random(rng, 9, 5, 4500)}, {"axes": (2,), "keepdims": 1})
    yield make_group("ReduceSum", {"x": random(rng, 4, 37, 1100)}, {"axes": (1,), "keepdims": 0})
