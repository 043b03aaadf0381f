"""Probes of memory levels move what they say, and measuring tells each turn beside the peak."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from meta_infer.ir.interpret_loop import interpret
from meta_infer.search.measure.candidate import compile_candidates
from meta_infer.search.measure.measure import measure
from meta_infer.search.measure.memory_probe import level_rates, memory_levels, memory_probes
from tests.kernels.harness import PROFILE, make_profile


def test_levels_as_the_profile_states_them() -> None:
    levels = memory_levels(PROFILE)
    assert [level.name for level in levels] == ["L1", "L2", "L3", "memory"]
    assert [level.capacity(2) for level in levels] == [2 * 32 << 10, 2 * 512 << 10, 16 << 20, math.inf]
    assert [level.name for level in memory_levels(replace(PROFILE, l2_bytes=None, l3_bytes=None))] == ["L1", "memory"]


@pytest.mark.parametrize("isa", ["x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64", "riscv64"])
def test_probes_for_every_instruction_set(isa: str) -> None:
    probes = memory_probes(make_profile(isa))
    assert [(p.level.name, p.way) for p in probes] == [
        ("L1", "read"), ("L1", "copy"), ("L2", "read"), ("L2", "copy"), ("L3", "read"), ("L3", "copy"),
        ("memory", "read")]
    for probe in probes:
        assert probe.bytes > 0
        assert sum(b.bytes for b in probe.candidate.buffers.values()) <= 16 << 20


def test_a_shared_probe_reads_all_of_its_memory_once() -> None:
    tiny = replace(make_profile(), l3_bytes=1 << 17, l1d_bytes=None, l2_bytes=None)
    for probe in memory_probes(tiny):
        (call,) = probe.candidate.calls
        buffers = probe.candidate.buffers
        x = np.arange(buffers["x"].bytes // 4, dtype=np.float32)
        y = np.full(buffers["y"].bytes // 4, np.nan, np.float32)
        interpret(call.func, (x, y), ())
        if probe.way == "copy":
            assert np.array_equal(x, y) and probe.bytes == x.nbytes + y.nbytes
        else:
            assert y.sum(dtype=np.float64) == pytest.approx(x.sum(dtype=np.float64)) and probe.bytes == x.nbytes


def test_rates_are_those_of_the_better_probe() -> None:
    probes = memory_probes(PROFILE)
    found = level_rates(probes, tuple(float(i) for i in range(len(probes))), 2)
    assert [(level.name, level.rate) for level in found] == [("L1", 1.0), ("L2", 3.0), ("L3", 5.0), ("memory", 6.0)]
    assert found[1].bytes == 2 * 512 << 10 and found[-1].bytes == math.inf


@pytest.mark.parametrize("threads", [1, 2])
def test_measured(threads: int) -> None:
    probes = memory_probes(PROFILE)
    assert PROFILE.isa is not None
    for m in measure(compile_candidates([p.candidate for p in probes], PROFILE.isa), rounds=2, seconds=0.05,
                     threads=threads):
        assert m.ok and len(m.turns) == m.rounds >= 1
        assert all(seconds > 0 and peak > 1e6 for seconds, peak in m.turns)
