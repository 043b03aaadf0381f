"""The knobs of Winograd convolutions, of floats and of 8-bit integers.

    vectors, columns   output blocks and tiles of a register tile
    groups             register tiles side by side in a block of tiles
    out_pass           register tiles, in output channels, of a pass
    in_pass            steps over input channels whose products are summed before the sums are stored
    ahead              1: weights are asked for one register tile before their use
    shared             1: a launch of its own transforms the input, for all passes
    at_load            1: weights are transformed when the package is loaded
"""

from __future__ import annotations

from collections.abc import Mapping

from meta_infer.hardware.profile import Profile
from meta_infer.ir.group import Variant
from meta_infer.kernels.conv.conv_shape import ConvShape
from meta_infer.kernels.conv.winograd_plan import WinogradConv
from meta_infer.kernels.conv_chunks import l2_bytes
from meta_infer.kernels.kernel import Knob, KnobValue, Refusal


def knob_values(cut: WinogradConv) -> dict[str, KnobValue]:
    return {"vectors": cut.vectors, "columns": cut.columns, "groups": cut.groups, "out_pass": cut.out_pass,
            "in_pass": cut.in_pass, "ahead": int(cut.is_ahead), "shared": int(cut.is_shared),
            "at_load": int(cut.is_at_load)}


def with_knobs(conv: ConvShape, m: int, block: int, values: Mapping[str, KnobValue]) -> WinogradConv:
    v = {name: int(value) for name, value in values.items()}
    return WinogradConv(conv, m, block, v["vectors"], v["columns"], v["groups"], v["out_pass"], v["in_pass"],
                        bool(v["ahead"]), bool(v["shared"]), bool(v["at_load"]))


def winograd_knobs(variant: Variant, cut: WinogradConv, columns: set[int], in_passes: set[int]) -> tuple[Knob, ...]:
    """Values worth trying; of columns and of input passes, which depend on the dtype, these."""
    tried = {
        "vectors": {1, 2, 3, 4}, "columns": columns, "groups": {1, 2, 4, 8, 16},
        "out_pass": {1, 2, 4, 8, len(cut.sizes)}, "in_pass": in_passes,
        "ahead": {0, 1}, "shared": {0, 1}, "at_load": {0, 1},
    }
    return tuple(Knob(name, tuple(sorted(values | {int(variant.knobs[name])}))) for name, values in tried.items())


def winograd_refusal(values: Mapping[str, KnobValue], cut: WinogradConv, in_steps: int, most_columns: int,
                     scratch_bytes: int, profile: Profile) -> Refusal | None:
    """Why a convolution cannot be cut like that. `in_steps` are all there are, `most_columns` fit the registers."""
    if cut.vectors > cut.out_blocks:
        return Refusal(values, "shape", f"{cut.vectors} vectors of {cut.out_blocks} output blocks")
    if cut.columns > most_columns:
        return Refusal(values, "registers", f"{cut.vectors} x {cut.columns} sums and their operands")
    if cut.out_pass > len(cut.sizes) or cut.in_pass > in_steps:
        return Refusal(values, "shape", "a pass of more than there is")
    if isinstance(cut.tiles, int) and cut.groups > -(-cut.tiles // cut.columns):
        return Refusal(values, "shape", f"{cut.slots} tiles of {cut.tiles}")
    most = max(profile.l3_bytes or 0, 4 * l2_bytes(profile))
    if scratch_bytes > most:
        return Refusal(values, "cache", f"{scratch_bytes} bytes of scratch are more than {most}")
    return None
