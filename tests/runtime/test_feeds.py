"""What callers feed by mistake: one clear error each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from meta_infer.runtime.feeds import check_names, check_output_names, check_shared_dims
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
