"""Measuring: what fails costs one sample, weights move, and the key of a time holds all that decides it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from meta_infer.backends.cpu.emit_c import KERNEL_TYPE
from meta_infer.backends.cpu.toolchain import compile_module
from meta_infer.kernels.matmul.gemm import GEMM
from meta_infer.kernels.reduction.non_zero import NON_ZERO
from meta_infer.search.measure.candidate import Candidate, Launch, MeasuredBuffer, compile_candidates, lowered_group
from meta_infer.search.measure.measure import measure, measure_groups
from meta_infer.search.measure.measurements import Measurement, key_of
from tests.kernels.harness import PROFILE, layouts_of, make_group

ISA = PROFILE.isa or ""
FEW = {"rounds": 3, "seconds": 0.05}

SOURCE = """
#include <stdint.h>
%s
static int64_t chunks(const int64_t* dims) { (void)dims; return 4; }
static int64_t scratch(const int64_t* dims) { (void)dims; return 64; }
static void run(void* const* bufs, const int64_t* dims, int64_t begin, int64_t end, void* scratch) {
    float* y = bufs[0];
    const float* w = bufs[1];
    (void)dims; (void)begin; (void)end; (void)scratch;
    %s
}
__attribute__((visibility("default"))) const mi_kernel mi_kernels[] = {{"k", chunks, scratch, run}};
__attribute__((visibility("default"))) const int32_t mi_kernel_count = 1;
"""
GOOD = "for (int64_t i = begin; i < end; ++i) y[i] = w[i] * 2.0f;"


def candidate(name: str, body: str, weight_bytes: int = 4096) -> Candidate:
    """A kernel `y[0..3] = f(w)` with this C body."""
    source = SOURCE % (KERNEL_TYPE, body)
    buffers = {"y": MeasuredBuffer(64, "float32", "output"), "w": MeasuredBuffer(weight_bytes, "float32", "weights")}
    return Candidate(name, compile_module([source], ISA), source, (Launch("k", ("y", "w")),), buffers)


def test_a_failing_candidate_costs_one_sample() -> None:
    """A crash, an illegal instruction, a hang, a kernel that is not there: each is named, the others are measured."""
    missing = replace(candidate("missing", GOOD), launches=(Launch("nothing", ("y", "w")),))
    found = measure([
        candidate("first", GOOD),
        candidate("illegal", "__builtin_trap();"),
        candidate("crash", "*(volatile float*)8 = 1.0f;"),
        candidate("late", "static int n; if (++n > 20000) *(volatile float*)8 = 1.0f; " + GOOD),
        candidate("hang", "for (;;) __asm__ volatile(\"\");"),
        missing,
        candidate("last", GOOD + " y[0] += w[1];"),
    ], patience=1.5, **FEW)
    by_name = {m.name: m for m in found}
    assert list(by_name) == ["first", "illegal", "crash", "late", "hang", "missing", "last"]
    for name in ("first", "last"):
        assert by_name[name].ok and 0 < by_name[name].seconds < 1 and by_name[name].rounds >= 1
    assert by_name["illegal"].status in ("killed by SIGILL", "killed by SIGTRAP")
    assert by_name["crash"].status == by_name["late"].status == "killed by SIGSEGV"
    assert by_name["hang"].status == "no sign of life for 1.5 s"
    assert "nothing" in by_name["missing"].status
    assert all(math.isinf(m.seconds) and not m.ok for m in found if m.name not in ("first", "last"))


def test_weights_move_and_activations_stay() -> None:
    """The kernel itself traps when its weights are where they were, or its other buffer is not."""
    body = """
    static const float* last;
    static float* first;
    if (last == w || (first && first != y)) __builtin_trap();
    last = w;
    first = y;
    """ + GOOD
    # Another source for the other one: a library loaded twice has its variables once.
    one, other = measure([candidate("a", body), candidate("b", body + "/* b */", 20 << 20)], **FEW)
    assert one.ok and other.ok, (one, other)


def test_real_kernels_with_a_share_of_the_peak() -> None:
    rng = np.random.default_rng(0)
    arrays = {"x": rng.standard_normal((64, 64), np.float32), "w": rng.standard_normal((64, 64), np.float32)}
    case = make_group("MatMul", arrays, constants=("w",))
    variant = next(iter(GEMM.variants(case.group, PROFILE)))
    layouts = layouts_of(variant, case.group)
    lowering = GEMM.lower(case.group, variant, layouts, PROFILE)
    uncompiled = lowered_group("gemm", case.group, lowering, layouts, {}, flops=2 * 64 ** 3)
    first, second = compile_candidates([uncompiled, replace(uncompiled, name="twin")], ISA)
    assert any(buffer.role == "weights" for buffer in first.buffers.values())
    assert first.launches == second.launches, "one function is compiled once"
    assert key_of(first, 1, "cpu") == key_of(second, 1, "cpu")
    for threads in (1, 2):
        for found in measure([first, second], threads=threads, **FEW):
            assert found.ok and found.share_of_peak > 0
            assert found.metric.kind == "measured" and found.metric.value == found.seconds


def test_a_kernel_that_finds_its_size_is_measured_at_the_largest() -> None:
    case = make_group("NonZero", {"x": np.ones((50, 3), np.float32)})
    variant = next(iter(NON_ZERO.variants(case.group, PROFILE)))
    layouts = layouts_of(variant, case.group)
    found = lowered_group("non-zero", case.group, NON_ZERO.lower(case.group, variant, layouts, PROFILE), layouts, {})
    assert found.buffers["out"].bytes == 2 * 150 * 8
    (result,) = measure(compile_candidates([found], ISA), **FEW)
    assert result.ok


def test_what_one_candidate_writes_no_other_reads() -> None:
    """A constant index stays 0 and inputs stay within [-1, 1), whatever the others write."""
    spoil = candidate("spoil", "int64_t* index = (int64_t*)bufs[0]; for (int i = 0; i < 8; ++i) index[i] = -1;")
    trap = "const int64_t* index = (const int64_t*)w; for (int i = 0; i < 8; ++i) if (index[i]) __builtin_trap();"
    for role in ("weights", "input"):
        buffers = {"y": MeasuredBuffer(64, "int64", "output"), "w": MeasuredBuffer(64, "int64", role)}
        found = measure([replace(spoil, buffers=buffers), replace(candidate("reads", trap), buffers=buffers)], **FEW)
        assert all(m.ok for m in found), found
    floats = candidate("floats", "for (int i = 0; i < 16; ++i) if (!(w[i] >= -1 && w[i] < 1)) __builtin_trap();")
    noise = candidate("noise", "for (int i = 0; i < 16; ++i) y[i] = 1e30f;")
    buffers = {"y": MeasuredBuffer(64, "float32", "output"), "w": MeasuredBuffer(64, "float32", "input")}
    found = measure([replace(noise, buffers=buffers), replace(floats, buffers=buffers)], **FEW)
    assert all(m.ok for m in found), found


def test_groups_are_told_of_as_they_end() -> None:
    """Whatever fails in one of them, they come in their order, each with all of its own."""
    crash, mark = "*(volatile float*)8 = 1.0f;", "/* again */"
    groups = [
        [candidate("a", GOOD), candidate("crash", crash), candidate("b", GOOD + "/* b */")],
        [],
        [candidate("crash alone", crash + mark)],
        [candidate("c", GOOD), candidate("d", GOOD + "/* d */")],
        [candidate("crash last", crash + mark)],
    ]
    found: list[tuple[Measurement, ...]] = []
    measure_groups(groups, found.append, patience=5.0, **FEW)
    assert [[m.name for m in group] for group in found] == [[c.name for c in group] for group in groups]
    assert all(m.ok != m.name.startswith("crash") for group in found for m in group)
    assert all(m.rounds <= 4 for group in found for m in group), "no group runs twice, but for a turn before a crash"
    told: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        measure_groups([groups[0], groups[3]], lambda group: (told.append(group[0].name), _interrupt()), **FEW)
    assert told == ["a"], "the first is known before the second ends"


def _interrupt() -> None:
    raise KeyboardInterrupt


def test_nothing_to_measure() -> None:
    assert measure([]) == ()


@pytest.mark.parametrize("change", [
    lambda c: replace(c, launches=(replace(c.launches[0], dims=(1,)),)),
    lambda c: replace(c, buffers={**c.buffers, "w": MeasuredBuffer(8192, "float32", "weights")}),
    lambda c: replace(c, buffers={**c.buffers, "w": MeasuredBuffer(4096, "float32", "input")}),
    lambda c: replace(c, artifact=replace(c.artifact, compiler="another")),
    lambda c: replace(c, artifact=replace(c.artifact, isa="x86-64")),
    lambda c: replace(c, source="other"),
])
def test_the_key_holds_all_that_decides_a_time(change: object) -> None:
    made = candidate("good", GOOD)
    assert callable(change)
    assert key_of(change(made), 1, "cpu") != key_of(made, 1, "cpu")
    assert key_of(made, 2, "cpu") != key_of(made, 1, "cpu") != key_of(made, 1, "another cpu")
    assert key_of(replace(made, name="renamed"), 1, "cpu") == key_of(made, 1, "cpu")
