"""The report of a build as text: every part is there, figures carry their kind, lines fit in 100 columns."""

from __future__ import annotations

import io

from rich.console import Console

from meta_infer.report.text import metric_text, report_parts
from meta_infer.support.trace import Step
from tests.report.test_comparison import compared

REPORT = {
    "model": "net [v2]", "hardware": "chip",
    "groups": [{"ops": "Conv+" + "Relu+" * 30 + "Add", "kernel": "conv_direct", "variant": "8x6",
                "flops": "3630000000"},
               {"ops": "Softmax", "kernel": "softmax", "variant": "plain", "flops": "280*batch"}],
    "figures": {"arena_bytes": 2048, "kernels": 3, "nothing": None,
                "latency_fp16": {"value": 0.0042, "unit": "s", "kind": "model", "spread": 0.0}},
}
STEPS = [Step("import", 0.0123, {"nodes": 4}), Step("verify", 1.5, {"worst_relative": 4.3238e-07})]


def printed(details: bool, comparisons: int) -> str:
    out = io.StringIO()
    console = Console(file=out, width=100)
    rows = [compared(f"y{i}", 0.001 * i) for i in range(comparisons)]
    for part in report_parts(REPORT, STEPS, rows, details):
        console.print(part, markup=False)
    return out.getvalue()


def test_everything_is_there() -> None:
    text = printed(details=True, comparisons=2)
    for words in ("net [v2] for chip", "12.3 ms  nodes 4", "worst relative 4.3e-07", "2.0 KiB",
                  "4.20 ms (estimate: model)", "3.63 G", "280*batch", "conv_direct", "y0", "y1"):
        assert words in text, words
    assert "nothing" not in text
    assert max(map(len, text.splitlines())) <= 100


def test_details_are_left_out_unless_asked_for() -> None:
    assert "conv_direct" not in printed(details=False, comparisons=0)


def test_many_comparisons_are_cut_to_the_largest() -> None:
    text = printed(details=False, comparisons=40)
    assert "the 12 largest of 40 comparisons" in text and "y39 " in text and "y0 " not in text


def test_kinds_of_figures() -> None:
    assert metric_text({"value": 0.5, "unit": "J", "kind": "measured", "spread": 0.0}) == "0.5 J"
    assert metric_text({"value": 12.0, "unit": "", "kind": "compiler_estimate", "spread": 0.0}) == (
        "12 (estimate: compiler_estimate)")
