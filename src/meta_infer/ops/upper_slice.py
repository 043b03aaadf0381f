"""Constants of a dynamic size: made for the largest size a dimension can have, and sliced at run time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from meta_infer.ir.graph import Node, Shape
from meta_infer.ir.shapes import upper

LARGEST_CONSTANT = 1 << 22
"""Elements; a decomposition that needed more would cost more memory than it is worth."""


def upper_shape(shape: Shape) -> tuple[int, ...] | None:
    """The largest sizes of `shape`, None when they hold more than LARGEST_CONSTANT elements."""
    sizes = tuple(upper(d) for d in shape)
    total = 1
    for size in sizes:
        total *= max(size, 1)
    return sizes if total <= LARGEST_CONSTANT else None


def sliced(array: np.ndarray, shape: Shape, fresh: Callable[[str], str], constant: Callable[[np.ndarray, str], str],
           hint: str, origins: tuple[str, ...]) -> tuple[str, tuple[Node, ...]]:
    """The corner of `array` that has `shape`: its name and the nodes that make it (none for a fixed shape)."""
    whole = constant(array, hint)
    if shape == array.shape:
        return whole, ()
    name, rank = fresh(hint), len(shape)
    return name, (Node("Slice", (whole,), (name,), {"starts": (0,) * rank, "sizes": shape, "steps": (1,) * rank},
                       origins),)
