"""Forms of a dense convolution over blocked channels that have the knobs of conv_knobs.py, and kernels made of them.

A form plans a convolution (with the knobs of its own rule, or given ones) and lowers the plan. conv_direct, conv_padded
and conv_pointwise are a form each; conv_first is two of them over a plain input.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from meta_infer.hardware.profile import Profile
from meta_infer.ir.group import PLAIN, Group, Layout, Variant, blocked
from meta_infer.kernels.blocked import operand_layouts
from meta_infer.kernels.conv.conv_knobs import Problem, Tiling, knob_values, knobs_of, refusal
from meta_infer.kernels.conv.conv_shape import ConvShape, conv_of, extra_inputs
from meta_infer.kernels.conv.conv_tile import OutTiles
from meta_infer.kernels.kernel import Kernel, Knob, KnobValue, Lowering, Refusal
from meta_infer.support.dtypes import FLOAT32


@dataclass(frozen=True)
class TiledConv(ABC):
    """A convolution with everything chosen."""

    conv: ConvShape
    tiling: Tiling
    problem: Problem

    @property
    def block(self) -> int:
        return self.problem.block

    @property
    def in_block(self) -> int:
        """1 for a plain input, whose rows have no channel blocks."""
        return self.problem.in_block

    @property
    def in_blocks(self) -> int:
        return self.problem.in_blocks

    @property
    def tiles(self) -> OutTiles:
        return self.problem.tiles(self.tiling)

    @property
    def tile_weights(self) -> int:
        """Weights of one output block."""
        return self.in_blocks * self.conv.taps * self.in_block * self.block

    @property
    def weights(self) -> int:
        """All weights, the padding channels included."""
        return self.tile_weights * self.problem.out_blocks

    @property
    def knob_values(self) -> Mapping[str, KnobValue]:
        return knob_values(self.tiling)

    @property
    @abstractmethod
    def scratch_elements(self) -> int:
        """Elements of float32 that a thread needs."""

    @property
    @abstractmethod
    def cost(self) -> float:
        """Operations at peak in the time of one image."""


Planned = TypeVar("Planned", bound=TiledConv)


def _common_knobs(plan: TiledConv) -> tuple[Knob, ...]:
    return knobs_of(plan.problem, plan.tiling)


def _nothing_more(tuned: TiledConv, default: TiledConv, profile: Profile) -> Refusal | None:
    return None


@dataclass(frozen=True)
class Form(Generic[Planned]):
    """One way to compute a dense convolution.

    fits    whether it can compute a group's convolution.
    plan    (convolution, block, channels of an input block, profile, knobs or None for its own rule) -> the plan.
    lower   (group, plan, layouts, name of the function).
    knobs   of a plan by its own rule.
    unfit   (tuned plan, plan by its own rule, profile) -> why it cannot be, beyond what all forms refuse.
    """

    fits: Callable[[Group, ConvShape], bool]
    plan: Callable[[ConvShape, int, int, Profile, Mapping[str, KnobValue] | None], Planned]
    lower: Callable[[Group, Planned, Mapping[str, Layout], str], Lowering]
    knobs: Callable[[Planned], tuple[Knob, ...]] = _common_knobs
    unfit: Callable[[Planned, Planned, Profile], Refusal | None] = _nothing_more


def _always(group: Group, conv: ConvShape) -> bool:
    return True


def form_kernel(kernel: str, forms: Mapping[str, Form], *, takes_plain: bool = False,
                takes: Callable[[Group, ConvShape], bool] = _always) -> Kernel:
    """The kernel whose variants are these forms, by name, of convolutions that it `takes`, over a blocked input or a
    plain one."""

    def planned(conv: ConvShape, name: str, profile: Profile,
                knobs: Mapping[str, KnobValue] | None = None) -> TiledConv:
        block = profile.lanes(FLOAT32)
        plan: TiledConv = forms[name].plan(conv, block, 1 if takes_plain else block, profile, knobs)
        return plan

    def variant_of(group: Group, plan: TiledConv, name: str) -> Variant:
        conv, block = plan.conv, plan.block
        inputs = operand_layouts(group, extra_inputs(group, conv), conv.y.rank, block)
        return Variant(kernel, name, inputs | {conv.x.name: PLAIN if takes_plain else blocked(block)},
                       {out: blocked(block) for out in group.outputs}, plan.knob_values,
                       scratch_bytes=plan.scratch_elements * 4, packed_bytes=plan.weights * 4, flops=conv.flops,
                       cost=plan.cost)

    def variants(group: Group, profile: Profile) -> Iterator[Variant]:
        conv = conv_of(group)
        if conv is None or profile.lanes(FLOAT32) == 1 or not takes(group, conv):
            return
        for name, form in forms.items():
            if form.fits(group, conv):
                yield variant_of(group, planned(conv, name, profile), name)

    def known(group: Group) -> ConvShape:
        conv = conv_of(group)
        assert conv is not None
        return conv

    def knobs(group: Group, variant: Variant, profile: Profile) -> tuple[Knob, ...]:
        found: tuple[Knob, ...] = forms[variant.name].knobs(planned(known(group), variant.name, profile))
        return found

    def tune(group: Group, variant: Variant, values: Mapping[str, KnobValue], profile: Profile) -> Variant | Refusal:
        full, conv = {**variant.knobs, **values}, known(group)
        default = planned(conv, variant.name, profile)
        tuned = planned(conv, variant.name, profile, full)
        refused = refusal(default.problem, tuned.tiling, default.tiling)
        refused = refused or forms[variant.name].unfit(tuned, default, profile)
        return replace(refused, knobs=full) if refused else variant_of(group, tuned, variant.name)

    def lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
        return forms[variant.name].lower(group, planned(known(group), variant.name, profile, variant.knobs), layouts,
                                         kernel)

    return Kernel(kernel, ("Conv",), variants, lower, knobs, tune)
