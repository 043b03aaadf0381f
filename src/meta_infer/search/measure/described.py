"""What the library says of a way before it is timed."""

from __future__ import annotations

from meta_infer.ir.group import Group
from meta_infer.ir.group_text import group_text, structure_hash
from meta_infer.library.samples import Sample
from meta_infer.search.space.ways import Way
from meta_infer.support.dtypes import FLOAT32


def described(group: Group, way: Way) -> Sample:
    """A sample of `way` for `group`, without times: `precision` is the dtype that its anchor reads first."""
    first = group.in_value(0) if group.anchor.inputs else None
    return Sample(way.kernel, way.variant, op=group.anchor.op, group=group_text(group), structure=structure_hash(group),
                  knobs=dict(way.knobs), layouts=way.layouts, precision=(first.dtype if first else FLOAT32).name)
