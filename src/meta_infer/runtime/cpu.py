"""What this processor can do, and which target of a package fits it best."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence, Set
from functools import cache
from pathlib import Path

from meta_infer.runtime.reader import Target
from meta_infer.support.errors import PackageError, UsageError


@cache
def cpu_features() -> frozenset[str]:
    """Features every core has, as Linux names them: 'flags' on x86, 'Features' on Arm. Empty where it does not say.

    The kernel lists a vector extension only when it also saves its registers, so no further test is needed.
    """
    try:
        text = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        return frozenset()
    rows = [line.partition(":") for line in text.splitlines()]
    found = [frozenset(value.split()) for key, _, value in rows if key.strip() in ("flags", "Features")]
    return frozenset.intersection(*found) if found else frozenset()


def architecture() -> str:
    """This machine's instruction set family: 'x86_64', 'aarch64', 'arm', 'riscv64'."""
    machine = platform.machine()
    return "arm" if machine.startswith("armv7") else machine


def available_cores() -> int:
    """Processors this process may keep busy: those it may run on, within the CPU time its container is given."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _cpu_quota(Path("/sys/fs/cgroup"))
    return cores if quota is None else max(1, min(cores, int(quota)))


def _cpu_quota(root: Path) -> float | None:
    """CPUs' worth of time per period that the control group at `root` allows, None for no limit.

    More threads than that are stopped together for the rest of every period, which is worse than fewer threads.
    """
    try:
        if (root / "cpu.max").exists():                                         # version 2
            quota, period = (root / "cpu.max").read_text().split()
        else:
            quota, period = ((root / "cpu" / f"cpu.cfs_{n}_us").read_text().strip() for n in ("quota", "period"))
        return int(quota) / int(period) if quota not in ("max", "-1") else None
    except (OSError, ValueError, ZeroDivisionError):
        return None


def target_named(targets: Sequence[Target], isa: str, what: str) -> Target:
    """The target for instruction set `isa`. Raises UsageError naming those there are."""
    for target in targets:
        if target.isa == isa:
            return target
    raise UsageError(f"has no target {isa!r}", what=what,
                     hint=f"its targets are {', '.join(t.isa for t in targets) or 'none'}")


def best_target(targets: Sequence[Target], what: str, here: str = "", features: Set[str] | None = None) -> Target:
    """The most capable target this machine satisfies, or another of architecture `here` with these features.

    Raises PackageError naming what is missing.
    """
    machine = f"that machine is {here}" if here else f"this machine is {architecture()}"
    here, features = here or architecture(), cpu_features() if features is None else features
    family = [t for t in targets if t.architecture == here and t.device == "cpu"]
    if not family:
        has = ", ".join(sorted({t.isa for t in targets})) or "no target"
        raise PackageError(f"holds code for {has}, {machine}", what=what,
                           hint="build it with --hardware native on this machine")
    fitting = [t for t in family if t.features <= features]
    if not fitting:
        nearest = min(family, key=lambda t: len(t.features - features))
        missing = ", ".join(sorted(nearest.features - features))
        raise PackageError(f"needs CPU features this processor lacks: {missing} (target {nearest.isa})", what=what,
                           hint="build it for an older instruction set, or with --hardware native here")
    return max(fitting, key=lambda t: len(t.features))
