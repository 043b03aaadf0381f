"""An op's numpy reference on arrays of any type, those included in which numpy does not compute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from meta_infer.ir.graph import Attr
from meta_infer.ops.opdef import OpDef
from meta_infer.ops.storage import MOVES, wide_of
from meta_infer.support.dtypes import DType, dtype_of


def run_reference(op: OpDef, attrs: Mapping[str, Attr], arrays: Sequence[np.ndarray | None],
                  types: Sequence[DType]) -> tuple[np.ndarray, ...]:
    """Results of `op`, of which those that `types` say are of a narrow type are rounded to it.

    Ops that only move elements work on narrow types as they are; all others get the wide type and compute in it.
    """
    if op.name in MOVES or not any(a is not None and dtype_of(a).is_narrow for a in arrays):
        return op.reference(attrs, arrays)
    wide = {key: wide_of(attr) if isinstance(attr, DType) and attr.is_narrow else attr for key, attr in attrs.items()}
    results = op.reference(wide, [a if a is None else _widened(a) for a in arrays])
    return tuple(r.astype(t.numpy) if t.is_narrow else r for r, t in zip(results, types, strict=False))


def _widened(array: np.ndarray) -> np.ndarray:
    dtype = dtype_of(array)
    return array.astype(wide_of(dtype).numpy) if dtype.is_narrow else array
