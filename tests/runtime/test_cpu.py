"""Choosing a target, and counting the cores a process may use."""

from __future__ import annotations

from pathlib import Path

import pytest

from meta_infer.runtime import cpu
from meta_infer.runtime.reader import Target
from meta_infer.support.errors import PackageError


def target(isa: str, architecture: str, *features: str) -> Target:
    return Target(isa, architecture, "cpu", frozenset(features), "", "", "", "")


OLD = target("x86-64-v2", "x86_64", "sse4_2")
NEW = target("x86-64-v3", "x86_64", "sse4_2", "avx2", "fma")
ARM = target("aarch64", "aarch64", "asimd")


@pytest.mark.parametrize(("machine", "has", "chosen"), [
    ("x86_64", {"sse4_2", "avx2", "fma", "avx512f"}, NEW),
    ("x86_64", {"sse4_2", "avx2"}, OLD),
    ("aarch64", {"asimd", "fp"}, ARM),
])
def test_the_most_capable_target_that_fits(monkeypatch, machine: str, has: set[str], chosen: Target) -> None:
    monkeypatch.setattr(cpu, "cpu_features", lambda: frozenset(has))
    monkeypatch.setattr(cpu, "architecture", lambda: machine)
    assert cpu.best_target([OLD, ARM, NEW], "p") is chosen


def test_what_is_missing_is_named(monkeypatch) -> None:
    monkeypatch.setattr(cpu, "cpu_features", lambda: frozenset({"sse2"}))
    monkeypatch.setattr(cpu, "architecture", lambda: "x86_64")
    with pytest.raises(PackageError, match=r"lacks: sse4_2 \(target x86-64-v2\)"):
        cpu.best_target([NEW, OLD], "p")
    with pytest.raises(PackageError, match="holds code for aarch64, this machine is x86_64"):
        cpu.best_target([ARM], "p")


@pytest.mark.parametrize(("files", "quota"), [
    ({"cpu.max": "max 100000\n"}, None), ({"cpu.max": "150000 100000\n"}, 1.5), ({"cpu.max": "nonsense"}, None),
    ({}, None),
    ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
    ({"cpu/cpu.cfs_quota_us": "400000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 4.0),
])
def test_container_limits(tmp_path: Path, files: dict[str, str], quota: float | None) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert cpu._cpu_quota(tmp_path) == quota
    assert cpu.available_cores() >= 1
