"""The aims and limits a user set: made of the configuration, and held against what a build came to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from meta_infer.build_config import BuildConfig
from meta_infer.hardware.profile import Profile
from meta_infer.report.aims import missed
from meta_infer.report.units import bytes_text, seconds_text
from meta_infer.search.aims import Aims, aims_of

PARTS = {"arena": "arena_bytes", "weights": "weight_bytes", "prepared at load": "prepared_bytes"}


def build_aims(config: BuildConfig, chip: Profile) -> Aims:
    """What the build of `config` for `chip` aims at.

    Kernels for a chip without a code generator are those of this machine: they are not chosen by figures of the chip,
    and its memory limits them only where the user says how much. Raises ProfileError where power is not stated.
    """
    aims = aims_of(config.objective, chip, target_ms=config.target_latency_ms, memory_mib=config.memory_limit_mib,
                   energy_mj=config.energy_limit_mj)
    if chip.backend is not None:
        return aims
    return replace(aims, objective="memory" if config.objective == "memory" else "latency", target_seconds=None,
                   memory_bytes=aims.memory_bytes if aims.memory_is_given else None, joules=None, energy=None)


def unheeded(config: BuildConfig, chip: Profile) -> Iterator[str]:
    """One warning per aim that decides less than its name says."""
    by_energy = [*(["--energy-limit-mj"] if config.energy_limit_mj is not None else []),
                 *([f"--objective {config.objective}"] if config.objective in ("energy", "balanced") else [])]
    if config.target_latency_ms is not None and chip.backend is None:
        yield (f"profile {chip.name} has no code generator, so kernels are chosen for this machine: "
               "--target-latency-ms is compared with an estimate, and chooses nothing")
    if by_energy and chip.backend is None:
        yield (f"profile {chip.name} has no code generator, so kernels are chosen for this machine: {by_energy[0]} is "
               "compared with an estimate, and chooses nothing")
    elif config.search_mode == "none" and config.replay is None and (by_energy or config.objective != "latency"):
        yield (f"nothing is timed without a search, so {(by_energy or ['--objective ' + config.objective])[0]} goes by "
               "guesses of time: --search-mode balanced times kernels")
    if config.search_mode == "none":
        for flag, given in (("--search-seconds", config.search_seconds), ("--tune-at", config.tune_at)):
            if given:
                yield f"nothing is timed without a search, so {flag} has no effect: give --search-mode as well"
    elif config.replay is not None:
        yield f"--replay takes all choices of the lock, so --search-mode {config.search_mode} times nothing"
    if config.replay is not None and config.objective != "latency":
        yield f"--replay takes all choices of the lock, so --objective {config.objective} chooses nothing"


def broken_limits(config: BuildConfig, figures: Mapping[str, Any],
                  rows: Mapping[str, Any] | None = None) -> Iterator[str]:
    """One warning per limit that is exceeded, or that nothing known can be held against.

    `figures` are those of the report: arena and weight bytes, and for a chip without a code generator the estimated
    latency and energy; `rows` those of aims.py. Memory is all tensors of a run and the packed weights; inputs and
    outputs are the caller's.
    """
    rows = rows or {}
    parts = {name: figures[key] for name, key in PARTS.items()}
    used, limit = sum(parts.values()), rows.get("memory_limit_bytes")
    if config.memory_limit_mib is not None:
        limit = int(config.memory_limit_mib * 2**20)
    if limit is not None and used > limit:
        text = ", ".join(f"{name} {bytes_text(size)}" for name, size in parts.items() if size)
        given = f"the limit of {config.memory_limit_mib:g} MiB" if config.memory_limit_mib is not None else (
            f"the {bytes_text(limit)} of memory that the profile states")
        yield f"memory: {bytes_text(used)} ({text}) are above {given}"
    yield from _late(config, figures, rows)
    energy = figures.get("energy")
    if config.energy_limit_mj is not None and energy is not None and energy["value"] * 1e3 > config.energy_limit_mj:
        yield (f"energy: {energy['value'] * 1e3:.3g} mJ (an estimate) are above the limit of "
               f"{config.energy_limit_mj:g} mJ")


def _late(config: BuildConfig, figures: Mapping[str, Any], rows: Mapping[str, Any]) -> Iterator[str]:
    if config.target_latency_ms is None:
        return
    estimates = [metric for key, metric in figures.items() if key.startswith("latency_")]
    text = missed(rows)
    if text is not None:
        yield text
    elif estimates and estimates[0]["value"] * 1e3 > config.target_latency_ms:
        yield (f"latency: {seconds_text(estimates[0]['value'])} (an estimate) is above the target of "
               f"{config.target_latency_ms:g} ms")
    elif not estimates and rows.get("latency_s") is None:
        yield (f"the target latency of {config.target_latency_ms:g} ms is not checked by this build: --search-mode "
               "balanced aims at it, and `meta-infer bench` measures the package")
