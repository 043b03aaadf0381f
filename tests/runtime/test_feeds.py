"""What callers feed by mistake: one clear error each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from meta_infer.ir.shapes import UNBOUNDED, Symbol, is_unbounded
from meta_infer.runtime.feeds import NO_BOUND, check_names, check_output_names, check_shared_dims, shape_text
from meta_infer.runtime.reader import Tensor
from meta_infer.support.errors import InputError

X, Z = Tensor("x", "float32", ("n", 3)), Tensor("z", "float32", (2, "n", "n + 1"))
SYMBOLS = {"n": {"min": 1, "max": 8, "step": 1}}


@pytest.mark.parametrize("feeds", [None, [np.zeros(3)], np.zeros(3), "x", 3])
def test_feeds_are_a_dict(feeds: Any) -> None:
    with pytest.raises(InputError, match="expected a dict"):
        check_names(feeds, (X,))


def test_a_name_of_another_type() -> None:
    with pytest.raises(InputError, match="no such input"):
        check_names({1: np.zeros(3)}, (X,))                                             # type: ignore[dict-item]
    with pytest.raises(InputError, match="no such output"):
        check_output_names([3], (X,))                                                   # type: ignore[list-item]


def test_one_output_name_is_no_list() -> None:
    with pytest.raises(InputError, match="list of names"):
        check_output_names("x", (X,))


def test_a_dim_that_two_inputs_share() -> None:
    check_shared_dims([np.zeros((4, 3)), np.zeros((2, 4, 5))], (X, Z), SYMBOLS)
    with pytest.raises(InputError, match=r"dimension 1 \(n\) is 5, but 4 in input 'x'") as caught:
        check_shared_dims([np.zeros((4, 3)), np.zeros((2, 5, 6))], (X, Z), SYMBOLS)
    assert caught.value.what == "input 'z'"


def test_a_size_without_a_bound_is_called_so() -> None:
    """A bound that is derived from none, as one less, is no better."""
    symbols = {"n": {"min": 1, "max": 9, "step": 2}, "trips": {"min": 0, "max": UNBOUNDED, "step": 1}}
    tensor = Tensor("y", "float32", ("trips", "n", 3))
    assert shape_text(tensor, symbols) == "[trips (0 or more, no bound), n (1..9 in steps of 2), 3]"
    for high in (NO_BOUND - 1, NO_BOUND, UNBOUNDED - 1):
        assert is_unbounded(Symbol("s", 0, high)) == (high >= NO_BOUND)
