"""How far two tensors are apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Distance:
    """max_abs = max|a - r|; relative = max|a - r| / max|r|; cosine of the angle; sqnr = 10 log10(|r|^2 / |a - r|^2) dB.

    Equal non-finite elements count as equal; one-sided ones make `relative` infinite.
    """

    max_abs: float
    relative: float
    cosine: float
    sqnr_db: float


def distance(actual: np.ndarray, reference: np.ndarray) -> Distance:
    """Distance of `actual` from `reference`, in float64. Raises ValueError when the shapes differ."""
    if actual.shape != reference.shape:
        raise ValueError(f"shapes differ: {actual.shape} and {reference.shape}")
    a, r = actual.astype(np.float64).reshape(-1), reference.astype(np.float64).reshape(-1)
    if a.size == 0:
        return Distance(0.0, 0.0, 1.0, np.inf)
    odd = ~(np.isfinite(a) & np.isfinite(r))
    same = (a == r) | (np.isnan(a) & np.isnan(r))
    if np.any(odd & ~same):
        return Distance(np.inf, np.inf, 0.0, -np.inf)
    a, r = np.where(odd, 0.0, a), np.where(odd, 0.0, r)
    difference = np.abs(a - r)
    largest, scale = float(difference.max()), float(np.abs(r).max())
    noise, signal = float(difference @ difference), float(r @ r)
    norms = float(np.sqrt(signal) * np.sqrt(a @ a))
    cosine = min(float(a @ r) / norms, 1.0) if norms else float(signal == float(a @ a))
    relative = largest / scale if scale else (0.0 if largest == 0.0 else np.inf)
    sqnr = 10 * np.log10(signal / noise) if noise and signal else (np.inf if not noise else -np.inf)
    return Distance(largest, relative, cosine, float(sqnr))
