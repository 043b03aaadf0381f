"""Tables of comparisons fit in 100 columns, however long the names, and point at the first tensor beyond."""

from __future__ import annotations

import io

import numpy as np
from rich.console import Console

from meta_infer.report.comparison import comparison_json, comparison_table
from meta_infer.verify.compare import TensorComparison
from meta_infer.verify.metrics import distance


def compared(name: str, error: float, exact: float | None = None) -> TensorComparison:
    reference = np.ones((2, 3), np.float32)
    found = distance(reference + np.float32(error), reference)
    return TensorComparison(name, (2, 3), {"batch": 2}, found, exact, exact)


def printed(comparisons: list[TensorComparison], **options: object) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=100, **options).print(comparison_table(comparisons, "layer"))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_the_first_one_beyond_is_marked() -> None:
    rows = printed([compared("a", 0.0), compared("b", 0.5), compared("c", 0.25)])
    assert [row.split()[0] for row in rows] == ["layer", "a", "b", "c"]
    assert rows[1].endswith("ok") and rows[2].endswith("first beyond") and not rows[3].endswith("first beyond")
    assert rows[3].endswith("beyond")


def test_long_names_fold_and_brackets_are_text() -> None:
    name = "/model/encoder/" + "layer.[0]/" * 20
    rows = printed([compared(name, 0.5, 0.1)])
    assert max(map(len, rows)) <= 100 and "first beyond" in rows[1]
    assert "".join(row.split()[0] for row in rows[1:]) == name


def test_no_rows() -> None:
    assert printed([])[0].startswith("layer")


def test_json_keeps_everything() -> None:
    row = comparison_json(compared("a", 0.5))
    assert row["passed"] is False and row["relative"] == 0.5 and row["shape"] == [2, 3] and row["from_float64"] is None
