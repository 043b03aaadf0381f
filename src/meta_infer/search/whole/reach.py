"""Why a target latency is out of reach: the roofline of the model on this machine, and the groups that take most.

The peak and the rates of memory are measured once for a machine and a number of threads, and kept in the experience
library as everything that is measured, so that a replay says the same.
"""

from __future__ import annotations

import hashlib
import statistics

from meta_infer.cost.floor import MachineRates, floor, traffic
from meta_infer.ir.group import Plan, walk_plans
from meta_infer.ir.group_text import group_text
from meta_infer.library.samples import Sample
from meta_infer.search.fine import Market, is_view
from meta_infer.search.measure.live_probes import LiveProbes
from meta_infer.search.measure.measure_protocol import VERSION
from meta_infer.search.measure.memory_probe import level_rates, memory_probes
from meta_infer.search.space.ways import way_of
from meta_infer.search.timing import Timer
from meta_infer.search.whole.outcome import Bottleneck, Reach
from meta_infer.support.errors import ToolchainError

MOST = 3
"""Groups that are named."""
_ROUNDS = 5
_STRUCTURE = "rates of the machine"
_MANY = 10 ** 6
"""Bytes, or operations, that a sample of a rate is the time of."""


def reach_of(market: Market, plan: Plan, timer: Timer) -> Reach:
    """The least that the model can take here, a mean over the timer's points, and what takes most in `plan`."""
    rates, points = machine_rates(timer), len(timer.points)
    groups = [planned.group for one in walk_plans(plan) for planned in one.groups]
    weights = [sum(traffic(group, sizes).weights for group in groups) for sizes in timer.points]
    rows: dict[str, list[float | str]] = {}
    total = least = by_peak = 0.0
    for one in walk_plans(plan):
        for planned in one.groups:
            group, way = planned.group, way_of(planned.group, planned.variant)
            text = group_text(group)
            site = market.sites.get(text)
            if site is None or way not in site.ways or is_view(group, planned.variant):
                continue
            seconds, own = market.price(text, way, site.ways[way]) / points, 0.0
            for sizes, between in zip(timer.points, weights, strict=True):
                if rates is None:
                    break
                found = floor(group, sizes, rates, between)
                own += found.seconds / points
                by_peak += found.seconds / points if found.bound == "peak" else 0.0
            total, least = total + seconds, least + own
            row = rows.setdefault(text, [group.label, next(iter(group.origins), group.outputs[0]), 0, 0.0, 0.0])
            row[2:] = [row[2] + 1, row[3] + seconds, row[4] + own]                     # type: ignore[operator]
    named = sorted(rows.values(), key=lambda row: -row[3])[:MOST]                      # type: ignore[operator]
    found_groups = tuple(Bottleneck(str(ops), str(node), int(count), float(seconds),
                                    float(seconds) / total if total else 0.0, float(own))
                         for ops, node, count, seconds, own in named)
    return Reach(least if rates else None, by_peak / least if least else 0.0, found_groups)


def machine_rates(timer: Timer) -> MachineRates | None:
    """From the library where it knows them, else measured and remembered; None in a replay that does not know, and for
    a board."""
    probes = memory_probes(timer.profile)
    names = ["peak", *(f"{probe.way} {probe.level.name}" for probe in probes)]
    keys = [_key(timer, name) for name in names]
    known = timer.library.known(keys) if timer.library else {}
    if not all(key in known for key in keys):
        if timer.is_replay or timer.board is not None:      # probes run in this process
            return None
        try:
            live = LiveProbes(timer.profile, timer.threads)
        except ToolchainError:
            return None
        turns = [live.rates() for _ in range(_ROUNDS)]
        samples = [Sample("probe", name, key=key, op="Probe", group=f"10^6 of {name}", structure=_STRUCTURE,
                          isa=str(timer.profile.isa), cpu=timer.cpu, threads=timer.threads, protocol=VERSION,
                          seconds=_MANY / statistics.median(rates), rounds=_ROUNDS, status="ok")
                   for name, key, rates in zip(names, keys, zip(*turns, strict=True), strict=True)]
        timer.remember(samples)
        known = {sample.key: sample for sample in samples}
    peak, *rates = (_MANY / known[key].seconds for key in keys)
    return MachineRates(peak, level_rates(probes, tuple(rates), timer.threads))


def _key(timer: Timer, name: str) -> str:
    parts = [_STRUCTURE, str(_MANY), name, str(timer.profile.isa), timer.cpu, str(timer.threads), str(VERSION)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
