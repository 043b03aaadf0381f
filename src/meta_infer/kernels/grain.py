"""The knob `grain`, elements of a chunk: all there is to choose in a kernel that moves or folds row by row.

Small chunks keep threads evenly busy and stay in the first cache, large ones are claimed less often. A chunk is one
row at least, so for long rows, and for tensors smaller than a chunk, several grains cut alike: one of them is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace

from meta_infer.hardware.profile import Profile
from meta_infer.ir.group import Group, Variant
from meta_infer.ir.shapes import Dim, product, usual_upper
from meta_infer.kernels.kernel import Knob, KnobValue, Refusal
from meta_infer.kernels.rows import GRAIN

Cut = Callable[[int], Hashable]
"""grain -> what it cuts: equal for grains that make the same chunks, at usual sizes where dims are dynamic."""
Tune = Callable[[Group, Variant, Mapping[str, KnobValue], Profile], Variant | Refusal]


def grains(default: int = GRAIN) -> tuple[int, ...]:
    """Values worth trying around the one that a kernel's rule takes."""
    return default // 4, default, default * 4


def rows_cut(rows: Dim, width: Dim) -> Cut:
    """Chunks of whole rows: as many as have `grain` elements, one at least."""
    count, length = max(1, usual_upper(rows)), max(1, usual_upper(width))
    return lambda grain: min(count, max(1, grain // length))


def spans_cut(rows: Dim, width: Dim) -> Cut:
    """As `rows_cut`, where a longer row is cut into spans of `grain`."""
    whole, length = rows_cut(rows, width), max(1, usual_upper(width))
    return lambda grain: (whole(grain), min(length, grain))


def output_rows(group: Group, variant: Variant) -> Cut:
    """Chunks of a kernel that writes its plain output row by row."""
    shape = group.values[group.outputs[0]].shape
    return rows_cut(product(shape[:-1]), shape[-1] if shape else 1)


def grain_refusal(knobs: Mapping[str, KnobValue], cut: Cut, default: int = GRAIN) -> Refusal | None:
    """Why `knobs["grain"]` is not worth trying; the default always is."""
    grain = int(knobs["grain"])
    if grain == default:
        return None
    if grain < 1:
        return Refusal(knobs, "shape", f"chunks of {grain} elements")
    alike = [other for other in grains(default) if (other < grain or other == default) and cut(other) == cut(grain)]
    return Refusal(knobs, "shape", f"{grain} elements are cut as {alike[0]}") if alike else None


def grain_knob(group: Group, variant: Variant, profile: Profile) -> tuple[Knob, ...]:
    """`Kernel.knobs` of a kernel that has no other."""
    return (Knob("grain", grains()),)


def tune_grain(cut_of: Callable[[Group, Variant], Cut]) -> Tune:
    """`Kernel.tune` of a kernel that has no other."""
    def tune(group: Group, variant: Variant, values: Mapping[str, KnobValue], profile: Profile) -> Variant | Refusal:
        full = {**variant.knobs, **values}
        return grain_refusal(full, cut_of(group, variant)) or replace(variant, knobs=full)

    return tune
