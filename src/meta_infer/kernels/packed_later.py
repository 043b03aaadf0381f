"""Packed weights that are computed when something reads them.

A search lowers hundreds of variants to time their code, and needs no more of their weights than how many bytes they
take; transforming them for Winograd took most of the time of lowering.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class PackedLater:
    """A flat array of `size` elements, which `make` computes; `np.asarray` is how to read it."""

    size: int
    dtype: np.dtype
    make: Callable[[], np.ndarray]

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        made = self.make()
        if made.shape != (self.size,) or made.dtype != self.dtype:
            raise ValueError(f"packed weights are {made.dtype}{made.shape}, not {self.dtype}({self.size},)")
        return made if dtype is None else made.astype(dtype)


Packed = np.ndarray | PackedLater
