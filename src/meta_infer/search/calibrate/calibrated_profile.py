"""The profile of a calibrated machine: what was probed, with what was measured and fitted."""

from __future__ import annotations

import io
from typing import Any

from ruamel.yaml import YAML

from meta_infer.hardware.probe import probe
from meta_infer.hardware.schema import Cost
from meta_infer.search.calibrate.calibration import Calibration

_LEVELS = {"l1d": "L1", "l2": "L2", "l3": "L3", "main": "memory"}
_ALONE = ("l1d", "l2")
"""Memories that belong to one core: so does their bandwidth."""
_DIGITS = 4


def calibrated_profile(found: Calibration, compiler: str, probed: str = "") -> str:
    """Text of a profile, in the full form; `probed` is that of the machine's probe, by default this machine's."""
    text = probed or probe()[0]
    yaml = YAML()
    yaml.width = 100
    chip = yaml.load(text)
    device = chip["devices"][0]
    if device.get("clock_ghz") and found.peak:
        device["macs_per_cycle"] = {"fp32": _rounded(found.peak / 2 / (device["clock_ghz"] * 1e9))}
    if found.step is not None and found.step > 1:
        device["aligned_channel"] = found.step
    links = []
    for memory in chip["memories"]:
        rates = found.rates if memory["kind"] in _ALONE else found.all_rates
        rate = rates.get(_LEVELS.get(memory["kind"], ""))
        if rate:
            links.append({"from": memory["name"], "to": device["name"], "bandwidth": f"{rate / 1e6:.0f} MB/s"})
    if links:
        chip["links"] = links
    if found.fitted.entries:
        chip["cost"] = [_entry(cost) for cost in found.fitted.entries]
    chip["versions"] = {"toolchain": compiler}
    stream = io.StringIO()
    yaml.dump(chip, stream)
    return stream.getvalue()


def _entry(cost: Cost) -> dict[str, Any]:
    values = cost.model_dump()
    for key in ("alpha", "beta", "delta"):
        values[key] = {name: _rounded(value) for name, value in values[key].items()}
    return values | {"gamma": _rounded(cost.gamma), "error": _rounded(cost.error), "overlap": cost.overlap}


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
