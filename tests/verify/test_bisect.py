"""Search by halves, against every small set of guilty suspects."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from meta_infer.verify.bisect import Suspect, find_guilty, find_removable, maker_of, names_text

SUSPECTS = tuple(Suspect("pass", f"p{i}") for i in range(13))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_all_that_must_go_are_found(count: int) -> None:
    for guilty in itertools.combinations(SUSPECTS, count):
        tries = 0

        def works(off: Sequence[Suspect], guilty: tuple[Suspect, ...] = guilty) -> bool:
            nonlocal tries
            tries += 1
            return set(guilty) <= set(off)

        assert set(find_guilty(SUSPECTS, works)) == set(guilty)
        assert tries <= 5 * count


def test_either_of_two_will_do() -> None:
    found = find_guilty(SUSPECTS, lambda off: SUSPECTS[3] in off or SUSPECTS[9] in off)
    assert found == (SUSPECTS[3],)


def test_what_a_build_needs_stays() -> None:
    needed = {SUSPECTS[0], SUSPECTS[5], SUSPECTS[12]}
    assert find_removable(SUSPECTS, lambda off: not needed & set(off)) == tuple(
        s for s in SUSPECTS if s not in needed)
    assert find_removable(SUSPECTS, lambda off: not off) == ()
    assert find_removable((), lambda off: True) == ()


def test_texts() -> None:
    assert names_text(()) == "nothing" and names_text(SUSPECTS).endswith("p3 and 9 more")
    assert Suspect("variant", "gemm/a").flag == "--exclude gemm/a" and SUSPECTS[0].flag == "--disable p0"


def test_the_command_that_makes_a_tensor() -> None:
    debug = {"buffers": [{"origin": None, "writers": [0]}, {"origin": "y", "writers": [1, 2]}],
             "commands": [{"op": "Fill"}, {"op": "If"}, {"op": "Call", "kernel": "k", "origins": ["n"]}]}
    assert maker_of(debug, "y") == ("k", ("n",)) and maker_of(debug, "z") == ("", ())
