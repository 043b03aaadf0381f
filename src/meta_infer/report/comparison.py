"""Tables and JSON of how far a package is from its reference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from meta_infer.report.units import small_text
from meta_infer.verify.compare import TensorComparison


def comparison_json(comparison: TensorComparison) -> dict[str, Any]:
    """One tensor as plain data."""
    c, d = comparison, comparison.distance
    return {"tensor": c.name, "shape": list(c.shape), "dims": dict(c.dims), "max_abs": d.max_abs,
            "relative": d.relative, "cosine": d.cosine, "sqnr_db": d.sqnr_db, "tolerance": c.tolerance,
            "passed": c.passed, "from_float64": c.exact_distance,
            "reference_from_float64": c.reference_exact_distance}


def comparison_table(comparisons: Sequence[TensorComparison], first: str = "output") -> Table:
    """One row per comparison. `first` heads the column of names: 'output', or 'layer'.

    Where a name returns, each of its rows is one sample of random inputs. The first row beyond its tolerance is red
    and says so: what comes after it usually inherits its error.
    """
    exact = any(c.exact_distance is not None for c in comparisons)
    sampled = len({c.name for c in comparisons}) < len(comparisons)
    columns = [first, *(["sample"] if sampled else []), "shape", "max abs", "relative", "cosine", "SQNR",
               *(["ours f64", "ref f64"] if exact else []), ""]
    table = Table(box=None, pad_edge=False)
    for name in columns:
        figure = name not in (first, "shape", "")
        table.add_column(name, justify="right" if figure else "left", no_wrap=name != first, overflow="fold")
    seen_beyond = False
    samples: Counter[str] = Counter()
    for c in comparisons:
        samples[c.name] += 1
        d = c.distance
        verdict = "ok" if c.passed else "beyond" if seen_beyond else "first beyond"
        style = "" if c.passed else "red" if seen_beyond else "bold red"
        seen_beyond = seen_beyond or not c.passed
        cells = [c.name, *([str(samples[c.name])] if sampled else []), _shape_text(c.shape, c.dims),
                 small_text(d.max_abs), small_text(d.relative),
                 f"{d.cosine:.6f}", f"{d.sqnr_db:.0f} dB"]
        if exact:
            cells += [small_text(c.exact_distance), small_text(c.reference_exact_distance)]
        table.add_row(*(Text(cell) for cell in (*cells, verdict)), style=style)
    return table


LEGEND = "max abs: largest |a - r|; relative: that over max|r|; SQNR: 10 log10(|r|^2 / |a - r|^2)"


def _shape_text(shape: Sequence[int], dims: Mapping[str, int]) -> str:
    return "x".join(map(str, shape)) if shape else "scalar"
