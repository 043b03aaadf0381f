from __future__ import annotations

import numpy as np
import pytest

from meta_infer.verify.metrics import distance


def test_equal_tensors() -> None:
    x = np.array([1.0, -2.0, 0.5], np.float32)
    d = distance(x, x)
    assert (d.max_abs, d.relative) == (0.0, 0.0) and d.sqnr_db == np.inf and d.cosine == pytest.approx(1.0)


def test_known_distance() -> None:
    d = distance(np.array([1.0, 2.5]), np.array([1.0, 2.0]))
    assert d.max_abs == 0.5 and d.relative == 0.25
    assert d.sqnr_db == pytest.approx(10 * np.log10(5 / 0.25))


def test_one_sided_nan_is_infinitely_far_and_shared_nan_is_not() -> None:
    assert distance(np.array([1.0, np.nan]), np.array([1.0, 2.0])).relative == np.inf
    assert distance(np.array([1.0, np.nan, np.inf]), np.array([1.0, np.nan, np.inf])).relative == 0.0
    assert distance(np.array([np.inf]), np.array([-np.inf])).relative == np.inf


def test_zero_reference() -> None:
    assert distance(np.zeros(3), np.zeros(3)).relative == 0.0
    assert distance(np.ones(3), np.zeros(3)).relative == np.inf


def test_empty_and_mismatched() -> None:
    assert distance(np.zeros((0, 3)), np.zeros((0, 3))).relative == 0.0
    with pytest.raises(ValueError, match="shapes differ"):
        distance(np.zeros(3), np.zeros(4))
