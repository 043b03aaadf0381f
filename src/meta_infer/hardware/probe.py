"""Read this machine: cores, instruction set, caches, memory, and the limits of its control groups.

Everything is read from the system, nothing is guessed: what cannot be read is left out, with a warning. The
result is the text of a profile in the full form: a probed machine and a written profile take the same path.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from meta_infer.hardware import cgroup, isa
from meta_infer.hardware.units import SIZE, format_size

_CACHES = {("1", "Data"): "l1d", ("1", "Unified"): "l1d", ("2", "Unified"): "l2", ("3", "Unified"): "l3"}


def probe(root: Path = Path("/"), cpus: frozenset[int] | None = None,
          architecture: str | None = None, name: str = "native") -> tuple[str, tuple[str, ...]]:
    """(text of a profile, warnings about what could not be read).

    `root` is where /proc and /sys are found, `cpus` the CPUs this process may run on (default: its affinity),
    `architecture` what `uname -m` prints, `name` the profile's.
    """
    cpus = cpus or frozenset(os.sched_getaffinity(0))
    architecture = architecture or os.uname().machine
    unread: list[str] = []
    info = _cpuinfo(root)
    features = _features(info)
    level = isa.highest_isa(architecture, features)
    if level is None:
        unread.append(f"/proc/cpuinfo fits no known instruction set of {architecture}: no backend")
    device: dict[str, Any] = {"name": "cpu0", "kind": "cpu"}
    if level is not None:
        device |= {"isa": level.name, "features": sorted((features & isa.EXTENSIONS) - level.features)}
    device["compute_units"] = _cores(root, cpus)
    clock = _clock_ghz(root, min(cpus), info)
    if clock is None:
        unread.append("clock: neither cpufreq nor /proc/cpuinfo states it")
    else:
        device["clock_ghz"] = clock
    device["precision"] = ["fp32"]
    memories = _memories(root, min(cpus), unread)
    # macs_per_cycle and bandwidth can be measured but not read: no machine states them, so that is no warning.
    chip: dict[str, Any] = {"name": name}
    model = _model(root, info)
    if model:
        chip["description"] = model
    if level is not None:
        chip["backend"] = "cpu"
    chip |= {"devices": [device], "memories": memories}
    stream = io.StringIO()
    yaml = YAML()
    yaml.width = 100
    yaml.dump(chip, stream)
    return stream.getvalue(), tuple(unread)


def _cpuinfo(root: Path) -> list[dict[str, str]]:
    """One mapping per processor of /proc/cpuinfo; empty where it cannot be read."""
    text = _read(root / "proc/cpuinfo") or ""
    entries = []
    for block in text.split("\n\n"):
        pairs = (line.split(":", 1) for line in block.splitlines() if ":" in line)
        entries.append({key.strip(): value.strip() for key, value in pairs})
    return [entry for entry in entries if entry]


def _model(root: Path, info: list[dict[str, str]]) -> str:
    """What the processor is called; on Arm, which gives it no name, the board with the numbers of the cores."""
    named = next((entry["model name"] for entry in info if "model name" in entry), "")
    if named:
        return named
    board = next((entry["Model"] for entry in info if "Model" in entry), "") or (
        _read(root / "proc/device-tree/model") or "").strip("\0 ")
    cores = sorted({f"{entry.get('CPU implementer', '')}/{entry['CPU part']}" for entry in info if "CPU part" in entry})
    kinds = {entry["uarch"] for entry in info if "uarch" in entry}
    return ", ".join(filter(None, (board, *([f"cores {' '.join(cores)}"] if cores else []), *sorted(kinds))))


def _features(info: list[dict[str, str]]) -> frozenset[str]:
    """Features that all processors have: the cores of a machine need not be alike."""
    lists = [entry.get("flags") or entry.get("Features") for entry in info]
    sets = [frozenset(text.split()) for text in lists if text]
    return frozenset.intersection(*sets) if sets else frozenset()


def _cores(root: Path, cpus: frozenset[int]) -> int:
    """CPUs of the affinity mask, or fewer where the control group grants less time than that.

    Half a CPU's time is rounded down: a thread more than granted is throttled with all the others.
    """
    limit = cgroup.cpu_limit(root)
    return len(cpus) if limit is None else max(1, min(len(cpus), int(limit)))


def _clock_ghz(root: Path, cpu: int, info: list[dict[str, str]]) -> float | None:
    """The highest clock cpufreq states (kHz), else the current one of /proc/cpuinfo (MHz)."""
    highest = _read(root / f"sys/devices/system/cpu/cpu{cpu}/cpufreq/cpuinfo_max_freq")
    if highest and highest.isdigit():
        return round(int(highest) / 1e6, 3) or None
    stated = [entry.get("cpu MHz", "") for entry in info]
    current = max((float(text) for text in stated if text.replace(".", "", 1).isdigit()), default=0.0)
    return round(current / 1e3, 3) or None


def _memories(root: Path, cpu: int, unread: list[str]) -> list[dict[str, Any]]:
    """Caches of `cpu` and main memory as entries of a profile; adds to `unread` what is missing."""
    memories = []
    caches = _cache_sizes(root, cpu)
    for kind in ("l1d", "l2", "l3"):
        if kind in caches:
            memories.append({"name": kind, "kind": kind, "size": format_size(caches[kind])})
    if not {"l1d", "l2"} <= set(caches):
        unread.append(f"caches: /sys/devices/system/cpu/cpu{cpu}/cache lacks l1d or l2")
    total = _memory_bytes(root)
    if total is None:
        unread.append("memory: /proc/meminfo has no MemTotal")
    else:
        memories.append({"name": "memory", "kind": "main", "size": format_size(total)})
    return memories


def _cache_sizes(root: Path, cpu: int) -> dict[str, int]:
    """Bytes of each data cache that /sys states, by kind; some virtual machines state 0, which says nothing."""
    sizes = {}
    for folder in sorted(root.glob(f"sys/devices/system/cpu/cpu{cpu}/cache/index*")):
        key = (_read(folder / "level") or "", _read(folder / "type") or "")
        text = _read(folder / "size") or ""
        if key in _CACHES and text[:-1].isdigit() and int(text[:-1]) and text[-1:] in ("K", "M"):
            sizes[_CACHES[key]] = int(text[:-1]) * SIZE[f"{text[-1]}iB"]
    return sizes


def _memory_bytes(root: Path) -> int | None:
    """MemTotal, or the control group's limit where that is lower."""
    for line in (_read(root / "proc/meminfo") or "").splitlines():
        if line.startswith("MemTotal:"):
            total = int(line.split()[1]) * SIZE["KiB"]
            return min(total, cgroup.memory_limit(root) or total)
    return None


def _read(file: Path) -> str | None:
    """Stripped text of a small system file, None where it is absent or unreadable."""
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None
