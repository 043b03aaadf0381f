"""The un-optimised baseline: the model as it would be built by somebody who only wants it to run.

No fusion, no moves, plain layouts between all groups, and for each group the simplest exact kernel that there is: of
those that read and write plain tensors and add no error the last one, because kernels are listed best first. For
convolutions that is a loop nest without packing (conv_generic); matrix products have tiled kernels only. Code is
compiled with all optimisations of the compiler, for all vector units of the chip, and runs on as many threads.
"""

from __future__ import annotations

from meta_infer.hardware.profile import Profile
from meta_infer.ir.graph import Graph
from meta_infer.ir.group import PLAIN, Group, Plan, Variant
from meta_infer.passes.covers import propose_covers
from meta_infer.search.default_plan import Variants, default_plan
from meta_infer.search.space.space import LEVELS

SHARE = 0.6
"""The target latency where none is given: this share of the baseline."""


def baseline_plan(graph: Graph, profile: Profile, variants: Variants, disabled: frozenset[str]) -> Plan:
    """The baseline of a graph. Raises UnsupportedError when a group has no variant."""
    def simplest(group: Group, profile: Profile) -> tuple[Variant, ...]:
        offered = tuple(variants(group, profile))
        plain = [one for one in offered if not one.risk and _is_plain(one)]
        return (plain[-1],) if plain else offered

    return default_plan(graph, profile, lambda g: propose_covers(g, disabled | LEVELS["none"], graph), simplest)


def _is_plain(variant: Variant) -> bool:
    return all(layout == PLAIN for layout in (*variant.inputs.values(), *variant.outputs.values()))
