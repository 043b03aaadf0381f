"""Tables without lines, as all reports have them."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table


def plain_table(*columns: str, right: Sequence[str] = ()) -> Table:
    """A table without lines whose cells fold; the columns in `right` hold figures."""
    table = Table(box=None, pad_edge=False)
    for name in columns:
        table.add_column(name, justify="right" if name in right else "left", overflow="fold", no_wrap=name in right)
    return table
