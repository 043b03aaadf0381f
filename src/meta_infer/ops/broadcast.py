"""Numpy broadcasting of shapes with symbolic dims, and of small known contents.

Sizes that inputs give must be proven equal at build. Sizes that data tells while running (`is_found`) seldom can be:
an importer compares such operands by AssertShape nodes, and repeats those that may be 1 by Expand nodes, before any
other op sees them (frontend/settle_sizes.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from meta_infer.ir.graph import Shape
from meta_infer.ir.shapes import Dim, bounds, dim_max, dim_min, symbols_of
from meta_infer.ops.opdef import ShapeError

CONTENT_LIMIT = 4096
"""Longest tensor whose elements are tracked."""


def text(shape: Sequence[Dim]) -> str:
    return f"[{', '.join(map(str, shape))}]"


Pairs = list[tuple[Dim, Dim]]

_ASSUMED: ContextVar[Pairs | None] = ContextVar("_ASSUMED", default=None)


@contextmanager
def assumed_equal() -> Iterator[Pairs]:
    """Inside, sizes that data tells are taken to be equal where they must be; the pairs are those to be compared."""
    pairs: Pairs = []
    token = _ASSUMED.set(pairs)
    try:
        yield pairs
    finally:
        _ASSUMED.reset(token)


def is_found(*dims: Dim) -> bool:
    """Whether data tells some of these sizes, while the model runs."""
    return any(symbol.maker for dim in dims for symbol in symbols_of(dim))


def better_known(a: Dim, b: Dim) -> Dim:
    """The one of two equal sizes of which more is known at build."""
    return b if isinstance(b, int) or (is_found(a) and not is_found(b)) else a


def check_may_equal(a: Dim, b: Dim) -> None:
    """Raises ShapeError when two sizes are never equal."""
    low, high = bounds(a - b)
    if low > 0 or high < 0:
        raise ShapeError(f"dimensions {a} and {b} differ")


def same_dim(a: Dim, b: Dim) -> Dim:
    """The one size that two dims which must agree have.

    Raises ShapeError when they differ for some sizes in range: code made for equal ones would read past a tensor's
    end there.
    """
    if a == b:
        return a
    check_may_equal(a, b)
    pairs = _ASSUMED.get()
    if pairs is not None and is_found(a, b):
        pairs.append((a, b))
        return better_known(a, b)
    if isinstance(a, int) or isinstance(b, int):
        raise ShapeError(f"dimensions {a} and {b} agree for some of the sizes in range only; narrow the range")
    raise ShapeError(f"dimensions {a} and {b} cannot be proven equal; give them the same name or a fixed size")


def may_be_one(dim: Dim) -> bool:
    """Whether 1 is in the range of a size."""
    low, high = bounds(dim)
    return low <= 1 <= high


def broadcast_dim(a: Dim, b: Dim) -> Dim:
    """Size of two dims broadcast against each other; which one of them is 1 must be known, unless data tells them."""
    if a == b or b == 1:
        return a
    if a == 1:
        return b
    if isinstance(a, int) and isinstance(b, int):
        raise ShapeError(f"dimensions {a} and {b} do not broadcast")
    if is_found(a, b) and _ASSUMED.get() is None:
        return _broadcast_found(a, b)
    return same_dim(a, b)


def _broadcast_found(a: Dim, b: Dim) -> Dim:
    """The size if a is b, a is 1 or b is 1: nothing else passes the comparison while running."""
    if not may_be_one(a) and not may_be_one(b):
        check_may_equal(a, b)
        return better_known(a, b)
    if not may_be_one(b):
        return b
    if not may_be_one(a):
        return a
    return dim_max(a, b) * dim_min(dim_min(a, b), 1)     # 0 and 1 give 0


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
