"""The choices of a plan as a lock file keeps them, and a plan of the choices of a lock.

    {"nodes": ["conv_out", "relu_out"], "group": "3f9a...", "kernel": "conv_direct", "variant": "conv_direct",
     "inputs": ["b8@1"], "outputs": ["b8@1"], "knobs": {"rows": 6}}

`nodes` are the first values that the group's nodes make, `group` a hash of its text (ir/group_text.py), so that a model
that is not the one of the lock is noticed. Groups that take no time are left out: they have one way only. Where the
kernel is a user's, `source` is a hash of the file that holds it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from meta_infer.hardware.profile import Profile
from meta_infer.ir.graph import Graph, Value
from meta_infer.ir.group import Group, Layout, Plan, walk_plans
from meta_infer.ir.group_text import group_text
from meta_infer.kernels.registry import all_kernels, rival_digest
from meta_infer.passes.rewrite import key_of
from meta_infer.search.default_plan import Variants
from meta_infer.search.fine import conversion_exists
from meta_infer.search.space.solve import Priced, solve
from meta_infer.search.space.space import Offer, make_space
from meta_infer.search.space.ways import Way, variant_as, way_of
from meta_infer.support.errors import InputError, UnsupportedError

_UNPRICED = 1e-6


def locked_choices(plan: Plan) -> list[dict[str, Any]]:
    """One entry for every group of a plan and of its regions."""
    found = []
    for planned in (planned for one in walk_plans(plan) for planned in one.groups):
        way = way_of(planned.group, planned.variant)
        if way.kernel not in ("view", "region"):
            found.append({"nodes": [key_of(node) for node in planned.group.nodes], "group": _hash(planned.group),
                          "kernel": way.kernel, "variant": way.variant, "inputs": list(way.inputs),
                          "outputs": list(way.outputs), "knobs": dict(way.knobs),
                          **({"source": digest} if (digest := rival_digest(way.kernel)) else {})})
    return found


def locked_plan(graph: Graph, choices: Sequence[Mapping[str, Any]], what: str, profile: Profile, variants: Variants,
                disabled: frozenset[str]) -> Plan:
    """The plan of these choices; `what` names where they come from.

    Raises InputError naming a choice that the model or this version does not have.
    """
    space = make_space(graph, profile, variants, disabled)
    wanted: dict[tuple[frozenset[str], str], Way] = {}
    for choice in choices:
        try:
            key = frozenset(choice["nodes"]), str(choice["group"])
            wanted[key] = Way(choice["kernel"], choice["variant"], tuple(choice["inputs"]), tuple(choice["outputs"]),
                              tuple(sorted(choice["knobs"].items())))
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError("holds a choice that is none", what=what, hint="build the package again") from error
    met: set[tuple[frozenset[str], str]] = set()

    def prices(offer: Offer) -> list[Priced]:
        if offer.is_free:
            return [Priced(variant, 0.0) for variant in offer.variants]
        key = frozenset(key_of(node) for node in offer.group.nodes), _hash(offer.group)
        if key not in wanted:
            return []
        variant = variant_as(wanted[key], offer.group, offer.variants, profile)
        if variant is None and wanted[key].kernel not in [kernel.name for kernel in all_kernels()]:
            raise InputError(f"takes kernel {wanted[key].kernel!r} for {offer.group.label}, which is none of "
                             "meta-infer's", what=what, hint="give the file that holds it: --custom FILE")
        if variant is None:
            raise InputError(f"asks for {wanted[key]} to compute {offer.group.label}, which this version does not have",
                             what=what, hint="leave --replay out, or build with the version that the lock names")
        met.add(key)
        return [Priced(variant, _UNPRICED)]

    def conversion(value: Value, source: Layout, target: Layout) -> float | None:
        return _UNPRICED if conversion_exists(source, target) else None

    try:
        solved = solve(space, prices, conversion)
    except UnsupportedError as error:
        missed = next((", ".join(sorted(nodes)) for nodes, text in wanted if (nodes, text) not in met), "")
        raise InputError(f"does not fit model {graph.name!r}" + (f": nothing in it is {missed}" if missed else ""),
                         what=what, hint="give the lock of a build of this very model, with the same --shape and "
                                         "--disable") from error
    return solved.plan


def other_sources(choices: Sequence[Mapping[str, Any]]) -> list[str]:
    """Kernels of users that choices were made with and whose files have changed since."""
    found = {str(choice.get("kernel")): choice.get("source") for choice in choices if isinstance(choice, Mapping)}
    return [name for name, digest in found.items() if digest and rival_digest(name) not in ("", digest)]


def _hash(group: Group) -> str:
    return hashlib.sha256(group_text(group).encode()).hexdigest()[:16]
