"""Limits that control groups set for this process, version 1 and 2.

Source: Linux Documentation/admin-guide/cgroup-v1 and cgroup-v2.rst. A limit of an enclosing group binds too,
so every level up to the mount is read and the smallest counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

# Version 1 writes "no limit" as the largest page-aligned 64-bit number.
_NO_LIMIT = 1 << 60


def cpu_limit(root: Path = Path("/")) -> float | None:
    """CPUs' worth of time this process may use (2.5 is possible), None where no limit is set."""
    limits = []
    for folder in _folders(root, "cpu"):
        quota, period = _words(folder / "cpu.max") or (
            _words(folder / "cpu.cfs_quota_us") + _words(folder / "cpu.cfs_period_us")) or ("max", "1")
        if quota.isdigit() and int(period) > 0:
            limits.append(int(quota) / int(period))
    return min(limits, default=None)


def memory_limit(root: Path = Path("/")) -> int | None:
    """Bytes of memory this process may use, None where no limit is set."""
    limits = []
    for folder in _folders(root, "memory"):
        for word in _words(folder / "memory.max") or _words(folder / "memory.limit_in_bytes"):
            if word.isdigit() and int(word) < _NO_LIMIT:
                limits.append(int(word))
    return min(limits, default=None)


def _words(file: Path) -> tuple[str, ...]:
    """The words of a small file; empty where it cannot be read (no such controller, or an old kernel)."""
    try:
        return tuple(file.read_text(encoding="utf-8", errors="replace").split())
    except OSError:
        return ()


def _folders(root: Path, controller: str) -> Iterator[Path]:
    """The group of this process and its ancestors, for each hierarchy that carries `controller`."""
    groups = _groups(root)
    for mount_root, mount_point, controllers in _mounts(root):
        if controllers is not None and controller not in controllers:
            continue
        group = groups.get("" if controllers is None else controller)
        if group is None:
            continue
        # A container sees only the part of the hierarchy that is mounted into it.
        inside = group.removeprefix(mount_root) if mount_root != "/" else group
        top = root / mount_point.lstrip("/")
        folder = top / inside.strip("/")
        yield from (f for f in (folder, *folder.parents) if f == top or top in f.parents)


def _groups(root: Path) -> dict[str, str]:
    """Group of this process by controller, '' for version 2. Lines are 'id:controllers:path'."""
    groups = {}
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        groups.update(dict.fromkeys(controllers.split(","), path))
    return groups


def _mounts(root: Path) -> Iterator[tuple[str, str, list[str] | None]]:
    """(root inside the hierarchy, mount point, controllers; None for version 2) of each mounted hierarchy."""
    for line in _lines(root / "proc/self/mountinfo"):
        fields, _, tail = line.partition(" - ")
        kind, _, options = tail.split(" ", 2)
        if kind in ("cgroup", "cgroup2"):
            mount_root, mount_point = fields.split()[3:5]
            yield mount_root, mount_point, None if kind == "cgroup2" else options.split(",")


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
