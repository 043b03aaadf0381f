"""Arithmetic on sizes that only a run can tell: small int64 tensors, in core ops, added while a node is imported.

    math = SizeMath(node, ctx)
    ends = math.min(math.where(math.less(ends, 0), math.add(ends, sizes), ends), sizes)

Operands are names of int64 values or Python numbers; everything broadcasts. What is known at import folds away.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from meta_infer.ir.graph import Attr, Node
from meta_infer.ir.shapes import Dim
from meta_infer.ops.importing import origin_of, unsupported
from meta_infer.ops.opdef import ImportContext, OnnxNode
from meta_infer.support.dtypes import BOOL, INT64, DType

Size = str | int


class SizeMath:
    """Adds one node per operation, each standing for the ONNX node that is being imported."""

    def __init__(self, node: OnnxNode, ctx: ImportContext) -> None:
        self._node, self._ctx = node, ctx

    # --- operands -------------------------------------------------------------------------------------------

    def vector(self, name: str, what: str) -> str:
        """Operand `name` of integers as an int64 vector. Raises UnsupportedError when its length is not known."""
        found = self._ctx.type_of(name)
        if len(found.shape) > 1 or not all(isinstance(d, int) for d in found.shape):
            raise unsupported(self._node, f"{what} ({name!r}) has a length that is known only while running",
                              f"give {what} a fixed number of elements")
        whole = self.cast(name, INT64)
        return whole if len(found.shape) == 1 else self._emit("Reshape", (whole,), shape=(1,))

    def length(self, name: str) -> int:
        """Elements of a vector."""
        (size,) = self._ctx.type_of(name).shape
        assert isinstance(size, int), "vector() has seen to it"
        return size

    def dims(self, shape: Sequence[Dim]) -> str:
        """Sizes as a vector, symbolic ones included."""
        parts = [self._dim(dim) for dim in shape]
        if not parts:
            return self.constant([])
        return parts[0] if len(parts) == 1 else self._emit("Concat", tuple(parts), axis=0)

    def _dim(self, dim: Dim) -> str:
        if isinstance(dim, int):
            return self.constant([dim])
        # The sizes of a tensor that is never computed: nothing reads its elements.
        zero = self._ctx.constant(np.zeros((), np.bool_), "nothing")
        return self._emit("Shape", (self._emit("Expand", (zero,), shape=(dim,)),), start=0, end=1)

    def constant(self, values: Sequence[int] | int) -> str:
        return self._ctx.constant(np.array(values, np.int64), "size")

    def pad_front(self, x: str, length: int, fill: int) -> str:
        """The vector `x` with `fill` put before it until it has `length` elements."""
        missing = length - self.length(x)
        return self._emit("Concat", (self.constant([fill] * missing), x), axis=0) if missing > 0 else x

    # --- operations -----------------------------------------------------------------------------------------

    def cast(self, x: str, dtype: DType) -> str:
        return x if self._ctx.type_of(x).dtype == dtype else self._emit("Cast", (x,), to=dtype)

    def add(self, a: Size, b: Size) -> str:
        return self._binary("Add", a, b)

    def sub(self, a: Size, b: Size) -> str:
        return self._binary("Sub", a, b)

    def mul(self, a: Size, b: Size) -> str:
        return self._binary("Mul", a, b)

    def div(self, a: Size, b: Size) -> str:
        """a / b towards zero; 0 where b is 0."""
        return self._binary("Div", a, self.where(self.equal(b, 0), 1, b))

    def min(self, a: Size, b: Size) -> str:
        return self._binary("Min", a, b)

    def max(self, a: Size, b: Size) -> str:
        return self._binary("Max", a, b)

    def equal(self, a: Size, b: Size) -> str:
        return self._binary("Equal", a, b)

    def less(self, a: Size, b: Size) -> str:
        return self._binary("Less", a, b)

    def where(self, condition: str, a: Size, b: Size) -> str:
        return self._emit("Where", (condition, self._value(a), self._value(b)))

    def any(self, x: str, axis: int) -> str:
        """Whether any of the bools along `axis` is true."""
        some = self.reduce("Max", self.cast(x, INT64), axis)
        return self.cast(some, BOOL)

    def reduce(self, op: str, x: str, axis: int) -> str:
        """'Sum', 'Prod', 'Max' or 'Min' along `axis`, which goes away."""
        return self._emit(f"Reduce{op}", (x,), axes=(axis,), keepdims=False)

    def column(self, x: str) -> str:
        """A vector [n] as [n, 1]."""
        return self._emit("Reshape", (x,), shape=(self.length(x), 1))

    def ceil_div(self, a: Size, b: Size) -> str:
        """ceil(a / b) for b other than 0, whatever the signs; negative results may be one too high."""
        towards = self.div(a, b)
        exact = self.equal(self.mul(towards, b), a)
        same_sign = self.equal(self.less(a, 0), self.less(b, 0))
        return self.where(exact, towards, self.add(towards, self.where(same_sign, 1, 0)))

    def ceil_quotient(self, a: str, b: str) -> str:
        """ceil(a / b) of floats."""
        return self.cast(self._emit("Ceil", (self._emit("Div", (a, b)),)), INT64)

    def running_sum(self, x: str) -> str:
        """The sums of a vector's first 1, 2, ... elements."""
        rank = self.length(x)
        upto = self._ctx.constant(np.tri(rank, rank, 0, np.bool_), "upto")
        return self.reduce("Sum", self.where(upto, x, 0), 1)

    def from_front(self, at: Size, size: Size) -> str:
        """Positions that count from the end when negative, counted from the front."""
        return self.where(self.less(at, 0), self.add(at, size), at)

    def at(self, sizes: str, places: str) -> str:
        """The elements of the vector `sizes` at `places`, counted from the front."""
        hits = self.equal(self.column(places), self.constant(list(range(self.length(sizes)))))
        return self.reduce("Sum", self.where(hits, sizes, 0), 1)

    def spread(self, axes: str, values: Size, rank: int, default: Size) -> str:
        """A vector of `rank` elements: `values[i]` at `axes[i]` (counted from the front), `default` elsewhere."""
        hits = self.equal(self.column(axes), self.constant(list(range(rank))))
        listed = values if isinstance(values, int) else self.column(values)
        return self.where(self.any(hits, 0), self.reduce("Sum", self.where(hits, listed, 0), 0), default)

    def among(self, axes: str, rank: int) -> str:
        """For each of `rank` axes whether the vector `axes` (which may count from the end) names it: bool[rank]."""
        front = self.from_front(axes, rank)
        return self.any(self.equal(self.column(front), self.constant(list(range(rank)))), 0)

    def kept(self, sizes: str, dropped: str, count: int) -> str:
        """The `count` elements of the vector `sizes` where `dropped` is false, in order."""
        rank = self.length(sizes)
        place = self.where(dropped, -1, self._places(dropped, rank))
        hits = self.equal(self.column(self.constant(list(range(count)))), place)
        return self.reduce("Sum", self.where(hits, sizes, 0), 1)

    def with_ones(self, sizes: str, inserted: str, rank: int) -> str:
        """The vector `sizes` with a 1 put in wherever `inserted`, of `rank` elements, is true."""
        hits = self.equal(self.column(self._places(inserted, rank)), self.constant(list(range(self.length(sizes)))))
        return self.where(inserted, 1, self.reduce("Sum", self.where(hits, sizes, 0), 1))

    def _places(self, flags: str, rank: int) -> str:
        """For each element how many before it are false."""
        before = self._ctx.constant(np.tri(rank, rank, -1, np.bool_), "before")
        return self.reduce("Sum", self.where(before, self.where(flags, 0, 1), 0), 1)

    # --- positions ------------------------------------------------------------------------------------------

    def part(self, x: str, first: int, count: int) -> str:
        """Elements [first, first + count) of a vector."""
        return self._emit("Slice", (x,), starts=(first,), sizes=(count,), steps=(1,))

    def iota(self, size: Dim) -> str:
        """0, 1, ..., size - 1."""
        return self._emit("Iota", (), size=(size,))

    def folded(self, place: str, length: str, mode: str) -> str:
        """The positions of an axis of `length` that `place`, which may lie outside, shows in a Pad of `mode`."""
        last = self.sub(length, 1)
        if mode == "wrap":
            return self.sub(place, self.mul(self.floor_div(place, length), length))
        if mode == "reflect":
            period = self.max(self.mul(last, 2), 1)
            place = self.sub(place, self.mul(self.floor_div(place, period), period))
            return self.min(place, self.sub(period, place))
        return self.max(self.min(place, last), 0)

    def floor_div(self, a: Size, b: Size) -> str:
        """floor(a / b) for b > 0; 0 where b is 0."""
        return self.div(self.where(self.less(a, 0), self.add(self.sub(a, b), 1), a), b)

    def gather(self, x: str, places: str, axis: int) -> str:
        """`x` at `places` along `axis`."""
        return self._emit("Gather", (x, places), axis=axis)

    def view(self, x: str, shape: Sequence[Dim]) -> str:
        """`x` in another shape of as many elements."""
        return self._emit("Reshape", (x,), shape=tuple(shape))

    def both(self, a: str, b: str) -> str:
        """a and b, of bools."""
        return self._emit("And", (a, b))

    # --- nodes ----------------------------------------------------------------------------------------------

    def _value(self, size: Size) -> str:
        return self.constant(size) if isinstance(size, int) else size

    def _binary(self, op: str, a: Size, b: Size) -> str:
        return self._emit(op, (self._value(a), self._value(b)))

    def _emit(self, op: str, inputs: tuple[str, ...], **attrs: Attr) -> str:
        out = self._ctx.fresh(f"{self._node.op.lower()}/{op.lower()}")
        self._ctx.emit(Node(op, inputs, (out,), attrs, (origin_of(self._node),)))
        return out
