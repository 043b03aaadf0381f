"""Compares a package with a reference: per output, and layer by layer at the fused boundaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from meta_infer.ir.graph import Graph, walk_graphs
from meta_infer.support.dtypes import BFLOAT16, FLOAT16
from meta_infer.verify.metrics import Distance, distance

TOLERANCE = 1e-3
"""Largest max|a - r| / max|r| that counts as equal in float32."""


def rounding_of(graph: Graph) -> float:
    """The relative distance that rounding alone explains: of bfloat16 and float16 some units of the last place.

    ONNX Runtime computes such models partly in float32, so two right results differ by that much.
    """
    dtypes = {value.dtype for holder in walk_graphs(graph) for value in holder.values.values()}
    return 2.0**-6 if BFLOAT16 in dtypes else 2.0**-7 if FLOAT16 in dtypes else 0.0


@dataclass(frozen=True)
class TensorComparison:
    """One tensor: its ONNX name, shape, and distance from the reference; for floats also from float64."""

    name: str
    shape: tuple[int, ...]
    dims: Mapping[str, int]
    distance: Distance
    exact_distance: float | None = None        # relative distance of the package from a float64 reference
    reference_exact_distance: float | None = None   # the same of the reference itself
    tolerance: float = TOLERANCE

    @property
    def passed(self) -> bool:
        """Close to the reference; or, where the reference itself is off, close to the float64 truth."""
        if self.distance.relative <= self.tolerance:
            return True
        return self.exact_distance is not None and self.exact_distance <= self.tolerance


def compare_outputs(names: Sequence[str], actual: Sequence[np.ndarray], reference: Sequence[np.ndarray],
                    dims: Mapping[str, int], exact: Sequence[np.ndarray] | None = None,
                    tolerance: float = TOLERANCE) -> tuple[TensorComparison, ...]:
    """Distances of all outputs; with `exact` (float64) also how far both sides are from the truth."""
    found = []
    for i, (name, a, r) in enumerate(zip(names, actual, reference, strict=True)):
        ours = theirs = None
        if exact is not None:
            ours, theirs = distance(a, exact[i]).relative, distance(r, exact[i]).relative
        found.append(TensorComparison(name, a.shape, dims, distance(a, r), ours, theirs, tolerance))
    return tuple(found)


def compare_layers(order: Sequence[str], actual: Mapping[str, np.ndarray], reference: Mapping[str, np.ndarray],
                   dims: Mapping[str, int], tolerance: float = TOLERANCE) -> tuple[TensorComparison, ...]:
    """Distances of inner tensors known to both sides, in execution order."""
    return tuple(TensorComparison(name, actual[name].shape, dims, distance(actual[name], reference[name]),
                                  tolerance=tolerance)
                 for name in order if name in actual and name in reference
                 and actual[name].shape == reference[name].shape)


def first_beyond(comparisons: Sequence[TensorComparison]) -> TensorComparison | None:
    """The first tensor in order that is beyond its tolerance."""
    return next((c for c in comparisons if not c.passed), None)
