"""What a search prints: short unless asked, within 100 columns, and the same facts as its JSON."""

from __future__ import annotations

import io
import json
import math
from collections import Counter

import pytest
from rich.console import Console

from meta_infer.ir.graph import Graph
from meta_infer.ir.group import Plan
from meta_infer.report.search_report import THIS_RUN, of_every_run, search_rows
from meta_infer.report.search_text import REASONS, rewrites_parts, search_parts
from meta_infer.search.story import Contender, Heavy, InContext, Level, Story

PLAN = Plan(Graph("g", (), (), (), {}, {}), (), {})
WAY = "conv_winograd/winograd_f4 ahead=0 at_load=0 columns=9 groups=1 in_pass=2 out_pass=1 shared=1 vectors=1"


def story() -> Story:
    return Story(
        2_080_000, 300, 99, looked_at=5940, kept=1509, refused=Counter(registers=1669, shape=86, risk=0), timed=51,
        recalled=173, taken_over=7, raw_error=2.8, error=0.07, gap=0.012, sum_of_parts=4.43e-3,
        contenders=(Contender("searched", PLAN, 5.51e-3, 5.62e-3), Contender("without conv_winograd", PLAN, 5.9e-3),
                    Contender("default", PLAN, 8.49e-3, 6.7e-3)),
        levels=(Level("none", 5.24e-3, 0.0, 0.94, 64, True), Level("elementwise", 5.24e-3, 0.0, 0.94, 64, False),
                Level("epilogue", 4.39e-3, 0.164, 0.38, 47, True), Level("full", math.inf, 0.0, 0.0, 0, True)),
        context=(InContext(4.43e-3, 5.6e-3, 5.65e-3, 1.06, 29, 4), InContext(5.51e-3, 5.5e-3, 5.6e-3, 1.05, 29, 0)),
        heaviest=(Heavy("Conv+Relu", "/features/features.3/expand3x3/Conv", 2, 2.95e-4, 0.13, WAY, True,
                        "conv_direct/conv_direct rows=2", 3.4e-4),
                  Heavy("Conv+" + "Relu+" * 9 + "Add", "node", 1, 1e-4, 0.02, WAY, False, WAY[:-1] + "2", 1.1e-4),
                  Heavy("Softmax", "", 1, 1e-5, 0.0, "softmax/rows", True, "", math.inf)),
        moves=Counter(merge_parallel=3))


def printed(verbose: bool, of: Story | None = None) -> str:
    out = io.StringIO()
    rows = json.loads(json.dumps(search_rows(of or story()), allow_nan=False))
    for part in search_parts(rows, verbose):
        Console(file=out, width=100).print(part, markup=False)
    return out.getvalue()


def test_the_short_text_has_counts_errors_levels_and_plans() -> None:
    text = printed(verbose=False)
    for words in ("2.08 M combinations", "99 distinct groups", "5940 guessed, 1509 kept, 224 timed",
                  "51 now, 173 from the library", "7 groups began with what did best on another chip",
                  "280% off, 7% once corrected", "no plan is more than 1.2% quicker", "3 x merge_parallel",
                  "add up to 4.43 ms, the whole took 5.65 ms (+27.5%)", "4 of 29 differ clearly",
                  "expected 5.51 ms, the whole took 5.60 ms (+1.6%)", "none of 29", "16.4%", "does not fit",
                  "none here", "searched", "+2.0%"):
        assert words in text, words
    assert "registers" not in text and "conv_winograd/f4" not in text
    assert max(map(len, text.splitlines())) <= 100


def test_the_long_text_has_refusals_and_where_the_time_goes() -> None:
    text = printed(verbose=True)
    for words in ("1755 could not be", "1669  need more vector registers", "590 us", "...xpand3x3/Conv",
                  "conv_winograd/f4", "conv_direct", "+15%", "vectors=2", "100 us ?", "none timed", "Conv+Relu+Rel..."):
        assert words in text, words
    assert "(risk)" not in text, "nothing was refused for it"
    assert max(map(len, text.splitlines())) <= 100


def test_several_sizes_are_named() -> None:
    rows = search_rows(story())
    for points, said in (([{"N": 1, "L": 16}, {"N": 1, "L": 96}], "over runs at N=1,L=16 and N=1,L=96;"), ([{}], "")):
        lines = [str(part) for part in search_parts(rows | {"tuned_at": points})]
        assert any(said in line for line in lines) and any("sums over" in line for line in lines) == bool(said)


def test_an_ended_search_says_that_another_build_goes_on() -> None:
    ended = story()
    ended.ended = "the time for measuring is over"
    assert "it ended early: the time for measuring is over; a greater mode" in printed(False, ended)


def test_levels_that_were_left_out_are_said_to_be() -> None:
    large = story()
    large.levels = ()
    assert "levels of fusion are not compared" in printed(False, large)


def test_a_search_of_nothing_prints_as_well() -> None:
    assert "0 combinations" in printed(verbose=True, of=Story())


def test_a_package_holds_nothing_of_one_build_alone() -> None:
    rows = search_rows(story())
    assert THIS_RUN in rows and THIS_RUN not in of_every_run(rows)
    other = story()
    other.timed, other.recalled = 0, 224
    assert of_every_run(search_rows(other)) == of_every_run(rows)


def test_the_json_has_what_is_printed() -> None:
    rows = search_rows(story())
    assert rows["in_place"][0]["expected_s"] == 4.43e-3 and rows["in_place"][1]["whole_s"] == 5.6e-3
    assert [row["level"] for row in rows["fusion_levels"]] == ["none", "elementwise", "epilogue", "full"]
    assert rows["fusion_levels"][-1]["seconds"] is None and rows["heaviest"][2]["rival_s"] is None
    assert rows["moves"] == {"merge_parallel": 3} and rows["guess_error_uncorrected"] == 2.8


def test_every_reason_has_words() -> None:
    from typing import get_args

    from meta_infer.kernels.kernel import Reason

    assert set(get_args(Reason)) | {"risk"} <= set(REASONS)


@pytest.mark.parametrize("count", [0, 2])
def test_rewrites_are_a_table_or_nothing(count: int) -> None:
    rows = [{"pass": f"pass_{i}", "does": "Folds " + "much " * 20, "changed": 5, "removed": 7} for i in range(count)]
    out = io.StringIO()
    for part in rewrites_parts(rows):
        Console(file=out, width=100).print(part, markup=False)
    assert ("pass_1" in out.getvalue()) == bool(count)
    assert max(map(len, out.getvalue().splitlines()), default=0) <= 100
