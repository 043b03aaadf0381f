"""The limits a user set, held against what a build came to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from meta_infer.build_config import BuildConfig
from meta_infer.report.units import bytes_text, seconds_text


def broken_limits(config: BuildConfig, figures: Mapping[str, Any]) -> Iterator[str]:
    """One warning per limit that is exceeded, or that nothing known can be held against.

    `figures` are those of the report: arena and weight bytes, and for a chip without a code generator the estimated
    latency. Memory is all tensors of a run and the packed weights; inputs and outputs are the caller's.
    """
    if config.memory_limit_mib is not None:
        parts = {"arena": figures["arena_bytes"], "weights": figures["weight_bytes"],
                 "prepared at load": figures["prepared_bytes"]}
        used = sum(parts.values())
        if used > config.memory_limit_mib * 2**20:
            text = ", ".join(f"{name} {bytes_text(size)}" for name, size in parts.items() if size)
            yield f"memory: {bytes_text(used)} ({text}) are above the limit of {config.memory_limit_mib:g} MiB"
    if config.target_latency_ms is not None:
        estimates = [metric for key, metric in figures.items() if key.startswith("latency_")]
        if not estimates:
            yield (f"the target latency of {config.target_latency_ms:g} ms is not checked by the build: "
                   "`meta-infer bench` measures the package")
        elif estimates[0]["value"] * 1e3 > config.target_latency_ms:
            yield (f"latency: {seconds_text(estimates[0]['value'])} (an estimate) is above the target of "
                   f"{config.target_latency_ms:g} ms")
