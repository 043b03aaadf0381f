"""What a Loop or Scan node gives its body in every pass: the types of the body's inputs, before any is imported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from meta_infer.ir.shapes import Dim
from meta_infer.ops.broadcast import same_dim, text
from meta_infer.ops.loop_node import most_trips
from meta_infer.ops.opdef import OnnxNode, ShapeError, TensorType
from meta_infer.support.dtypes import BOOL, INT64

LOOPS = frozenset({"Loop", "Scan"})
_T = TypeVar("_T")


@dataclass(frozen=True)
class Operands:
    """The body's inputs are `count` values of the loop itself (Loop: iteration and condition), the carried ones, rows.

    Its outputs are the condition (Loop), the carried ones, and whatever is gathered. `most` bounds the number of
    passes.
    """

    carried: tuple[TensorType, ...]
    rows: tuple[TensorType, ...]
    counts: bool
    most: int

    def types(self, iteration: Dim, carried: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Types of the body's inputs when the carried values have these."""
        own = (TensorType(INT64, (), (iteration,)), TensorType(BOOL, ())) if self.counts else ()
        return (*own, *carried, *self.rows)

    def carried_inputs(self, given: Sequence[_T]) -> Sequence[_T]:
        """What belongs to the carried values among what belongs to the body's inputs."""
        first = 2 if self.counts else 0
        return given[first:first + len(self.carried)]

    def carried_results(self, made: Sequence[_T]) -> Sequence[_T]:
        """What belongs to the carried values among what belongs to the body's outputs."""
        first = 1 if self.counts else 0
        return made[first:first + len(self.carried)]


def loop_operands(node: OnnxNode, types: Sequence[TensorType | None]) -> Operands:
    """Read the operands' types. Raises ShapeError when there are too few, or scan inputs of different lengths."""
    if node.op == "Loop":
        trip = types[0] if types else None
        return Operands(_plain(types[2:]), (), True, most_trips(trip.content if trip is not None else None))
    batch = 1 if node.version < 9 else 0                 # one entry of the batch at a time
    given, count = _plain(types[batch:]), node.attrs["num_scan_inputs"]
    if not isinstance(count, int) or not 0 < count <= len(given):
        raise ShapeError(f"{count} scan inputs among {len(given)} operands")
    states, scanned = given[:len(given) - count], given[len(given) - count:]
    axes = node.attrs.get("scan_input_axes", (batch,) * count)
    if not isinstance(axes, tuple) or len(axes) != count:
        raise ShapeError(f"{len(axes) if isinstance(axes, tuple) else 0} axes for {count} scan inputs")
    rows, length = [], None
    for found, axis in zip(scanned, axes, strict=True):
        rank = len(found.shape)
        if not isinstance(axis, int) or not -rank <= axis < rank or rank <= batch:
            raise ShapeError(f"a scan input of shape {text(found.shape)} has no axis {axis}")
        at = axis % rank
        length = found.shape[at] if length is None else same_dim(length, found.shape[at])
        rows.append(TensorType(found.dtype, tuple(d for i, d in enumerate(found.shape) if i not in (at, at - batch))))
    assert length is not None
    states = tuple(TensorType(found.dtype, found.shape[batch:]) for found in states)
    return Operands(states, tuple(rows), False, most_trips((length,)))


def _plain(types: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
    """Those that are there, with the contents of integers only: a carried value may count."""
    return tuple(TensorType(found.dtype, found.shape, found.content if found.dtype == INT64 else None)
                 for found in types if found is not None)
