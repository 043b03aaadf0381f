"""Reads the files that a probe asks for off a board, and probes the copy: boards and this machine take one path."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from meta_infer.hardware.probe import probe

_MARK = "@@meta-infer "
_FILES = (
    "/proc/cpuinfo", "/proc/meminfo", "/proc/self/status", "/proc/self/cgroup", "/proc/self/mountinfo",
    "/proc/device-tree/model", "/sys/devices/system/cpu/cpu*/cache/index*/level",
    "/sys/devices/system/cpu/cpu*/cache/index*/type", "/sys/devices/system/cpu/cpu*/cache/index*/size",
    "/sys/devices/system/cpu/cpu*/cpufreq/cpuinfo_max_freq", "/sys/fs/cgroup/cpu.max", "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/cpu*/cpu.cfs_*_us", "/sys/fs/cgroup/memory/memory.limit_in_bytes",
)
_SCRIPT = (
    "groups=; g=$(sed -n 's/^0:://p' /proc/self/cgroup 2>/dev/null); "
    'while [ "${g%/}" ]; do groups="$groups /sys/fs/cgroup$g/cpu.max /sys/fs/cgroup$g/memory.max"; g=${g%/*}; done; '
    f'echo "{_MARK}architecture"; uname -m; for f in {" ".join(_FILES)} $groups; do '
    f'if [ -r "$f" ]; then echo; echo "{_MARK}$f"; cat "$f"; fi; done'
)


def read_board(output: Callable[[str], bytes], host: str) -> tuple[str, tuple[str, ...]]:
    """As `probe`, of the machine `host`, on which `output` runs a shell script, giving what that prints."""
    text = output(_SCRIPT).decode(errors="replace").replace("\0", "")
    sections = dict(part.split("\n", 1) for part in text.split(_MARK)[1:] if "\n" in part)
    architecture = sections.pop("architecture", "").strip()
    with tempfile.TemporaryDirectory(prefix="meta-infer-probe-") as folder:
        root = Path(folder)
        for file, content in sections.items():
            if ".." in file:
                continue
            copy = root / file.lstrip("/")
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(content.rstrip("\n"))
        return probe(root, _allowed(sections.get("/proc/self/status", "")), architecture, host)


def _allowed(status: str) -> frozenset[int]:
    """CPUs of the line 'Cpus_allowed_list: 0-3,6'; CPU 0 where it is missing."""
    text = next((line.split(":", 1)[1] for line in status.splitlines() if line.startswith("Cpus_allowed_list:")), "0")
    found: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first.isdigit():
            found.update(range(int(first), int(last or first) + 1))
    return frozenset(found or {0})
