"""What is known of a node that does not fit the sizes in range: enough to find a range that does."""

from __future__ import annotations

from collections.abc import Sequence

from meta_infer.ir.graph import Shape
from meta_infer.ir.shapes import Apply, Dim
from meta_infer.ops.opdef import TensorType
from meta_infer.support.errors import ModelError, UnsupportedError


class ShapeMismatch(Exception):
    """Raised while importing; never reaches a user: `error` does.

    `position` counts the nodes that fitted; `shapes` and `numbers` are those of the failing node's operands. Numbers
    are fixed sizes, limits of sizes (min and max), and elements of small known operands (the target of a Reshape),
    without repetition.
    """

    def __init__(self, error: ModelError | UnsupportedError, position: int, operands: Sequence[TensorType]) -> None:
        super().__init__(str(error))
        self.error, self.position = error, position
        self.shapes: tuple[Shape, ...] = tuple((*found.shape, *(found.content or ())) for found in operands)
        self.numbers = tuple(dict.fromkeys(n for shape in self.shapes for dim in shape for n in _numbers(dim)))


def _numbers(dim: Dim) -> list[int]:
    if isinstance(dim, int):
        return [dim]
    atoms = [atom for monomial, _ in dim.terms for atom in monomial]
    limits = [atom for atom in atoms if isinstance(atom, Apply) and atom.op != "floordiv"]
    return [number for limit in limits for side in (limit.a, limit.b) for number in _numbers(side)]
