"""Numpy broadcasting of shapes with symbolic dims, and of small known contents."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from meta_infer.ir.graph import Shape
from meta_infer.ir.shapes import Dim, bounds
from meta_infer.ops.opdef import ShapeError

CONTENT_LIMIT = 4096
"""Longest tensor whose elements are tracked."""


def text(shape: Sequence[Dim]) -> str:
    return f"[{', '.join(map(str, shape))}]"


def same_dim(a: Dim, b: Dim) -> Dim:
    """The one size that two dims which must agree have.

    Raises ShapeError when they differ for some sizes in range: code made for equal ones would read past a tensor's
    end there.
    """
    if a == b:
        return a
    low, high = bounds(a - b)
    if low > 0 or high < 0:
        raise ShapeError(f"dimensions {a} and {b} differ")
    if isinstance(a, int) or isinstance(b, int):
        raise ShapeError(f"dimensions {a} and {b} agree for some of the sizes in range only; narrow the range")
    raise ShapeError(f"dimensions {a} and {b} cannot be proven equal; give them the same name or a fixed size")


def broadcast_dim(a: Dim, b: Dim) -> Dim:
    """Size of two dims broadcast against each other; which one of them is 1 must be known."""
    if a == b or b == 1:
        return a
    if a == 1:
        return b
    if isinstance(a, int) and isinstance(b, int):
        raise ShapeError(f"dimensions {a} and {b} do not broadcast")
    return same_dim(a, b)


def broadcast_shapes(*shapes: Shape) -> Shape:
    """The shape numpy broadcasting gives. Raises ShapeError that names the shapes and the dims that clash."""
    rank = max((len(s) for s in shapes), default=0)
    result: list[Dim] = [1] * rank
    for shape in shapes:
        lead = rank - len(shape)
        for i, dim in enumerate(shape):
            try:
                result[lead + i] = broadcast_dim(result[lead + i], dim)
            except ShapeError as error:
                raise ShapeError(f"shapes {' and '.join(text(s) for s in shapes)}: {error}") from None
    return tuple(result)


def broadcast_content(parts: Sequence[tuple[Dim, ...] | None], shape: Shape,
                      combine: Callable[..., Dim | None]) -> tuple[Dim, ...] | None:
    """`combine` applied element by element to known contents; None when any element is unknown.

    `shape` is the broadcast shape of the tensors that hold `parts`.
    """
    if len(shape) > 1 or any(part is None for part in parts):
        return None
    size = shape[0] if shape else 1
    if not isinstance(size, int) or size > CONTENT_LIMIT:
        return None
    known = [part for part in parts if part is not None]
    if any(len(part) not in (1, size) for part in known):
        return None
    result: list[Dim] = []
    for i in range(size):
        element = combine(*(part[0 if len(part) == 1 else i] for part in known))
        if element is None:
            return None
        result.append(element)
    return tuple(result)
