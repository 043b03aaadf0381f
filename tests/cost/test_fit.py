"""The cost model: what is predicted in theory, and that a fit finds the coefficients that made the times."""

from __future__ import annotations

from datetime import date

import numpy as np
import pytest
from tests.kernels.harness import make_profile

from meta_infer.cost.features import WORK, Call, Features, features_of
from meta_infer.cost.fit import FEWEST, CostSample, at_one_clock, fit, is_held_out
from meta_infer.cost.model import ANY, Coefficients, CostModel, in_theory, precision_of
from meta_infer.hardware.load import parse_profile
from meta_infer.hardware.schema import Chip, Cost
from meta_infer.ir.builder import Builder
from meta_infer.ir.loop import mad
from meta_infer.support.dtypes import FLOAT32, INT64

PROFILE = make_profile("x86-64-v3")
TODAY = date(2026, 11, 30)
TRUE = Coefficients({"ports": 6e-11, "loop": 3e-10}, {"l2": 2e-11, "ram": 9e-11}, 4e-7, {"chunks": 1e-8}, 0.75)


def _features(rng: np.random.Generator) -> Features:
    size = 10.0 ** rng.uniform(3, 6)
    return Features({"ports": size * 8, "loop": size * rng.uniform(0, 1)},
                    {"l2": size * 10.0 ** rng.uniform(0, 2), "ram": size * 10.0 ** rng.uniform(-1, 1)},
                    float(rng.integers(1, 4)), {"chunks": float(rng.integers(1, 30))})


def _samples(count: int, seed: int, kernel: str = "gemm", noise: float = 0.0, truth: Coefficients = TRUE,
             slow: float = 1.0) -> list[CostSample]:
    rng = np.random.default_rng(seed)
    found = []
    for i in range(count):
        features = _features(rng)
        factor = np.exp(rng.normal(0, noise)) if noise else 1.0
        clock = rng.uniform(0.7, 1.0)
        found.append(CostSample(kernel, "fp32", f"{kernel} {i // 3}", features,
                                slow * truth.seconds(features) * factor / clock, clock * 1e11))
    return found


@pytest.mark.parametrize("overlap", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_a_fit_finds_what_made_the_times(overlap: float, noise: float) -> None:
    truth = Coefficients(TRUE.alpha, TRUE.beta, TRUE.gamma, TRUE.delta, overlap)
    found = fit(_samples(300, 1, noise=noise, truth=truth), PROFILE, TODAY)
    quality = found.quality["gemm", "fp32"]
    assert quality.error < 0.03 + noise and quality.rank > 0.95
    model = CostModel.of(PROFILE, found.entries)
    fresh = at_one_clock(_samples(50, 2, truth=truth))
    off = [abs(model.seconds("gemm", "fp32", s.features).seconds / s.seconds - 1) for s in fresh]
    assert np.median(off) < 0.05 + noise


def test_outliers_pull_little() -> None:
    samples = _samples(200, 3)
    bad = [CostSample(s.kernel, s.precision, s.group, s.features, s.seconds * (20 if i % 12 == 0 else 1), s.peak)
           for i, s in enumerate(samples)]
    assert fit(bad, PROFILE, TODAY).quality["gemm", "fp32"].error < 0.05


def test_entries_are_those_of_a_profile_and_read_back() -> None:
    few = _samples(FEWEST - 1, 6, "pool")
    found = fit([*_samples(60, 4), *_samples(60, 5, "conv", slow=2.0), *few], PROFILE, TODAY)
    assert [e.kernel_class for e in found.entries] == [ANY, "conv", "gemm"], "too few samples are no class"
    gemm = found.entries[2]
    assert gemm.fitted == TODAY and gemm.samples == 60 and gemm.error < 0.1
    again = [Cost.model_validate(entry.model_dump()) for entry in found.entries]
    assert again == list(found.entries)
    chip = Chip.model_validate({**PROFILE.chip.model_dump(by_alias=True), "cost": tuple(found.entries)})
    assert len(chip.cost) == 3
    model = CostModel.of(PROFILE, found.entries)
    assert model.coefficients("pool", "fp32") == Coefficients.of(found.entries[0])
    assert model.coefficients("gemm", "int8") == Coefficients.of(gemm), "another precision of it is the next best"
    features = _features(np.random.default_rng(7))
    ratio = model.seconds("conv", "fp32", features).seconds / model.seconds("gemm", "fp32", features).seconds
    assert ratio == pytest.approx(2.0, rel=0.2)
    assert model.seconds("gemm", "fp32", features).spread < 0.1 * model.seconds("gemm", "fp32", features).seconds


def test_failed_and_missing_samples() -> None:
    assert fit([], PROFILE, TODAY).entries == ()
    one = _samples(1, 8)[0]
    broken = CostSample("gemm", "fp32", "x", one.features, float("inf"))
    found = fit([one, broken], PROFILE, TODAY)
    assert [e.kernel_class for e in found.entries] == [ANY] and found.entries[0].samples == 1


def test_what_is_held_out_hangs_on_the_group_alone() -> None:
    held = [is_held_out(f"group {i}") for i in range(1000)]
    assert 0.15 < np.mean(held) < 0.25
    assert held == [is_held_out(f"group {i}") for i in range(1000)]


def test_theory_is_peak_and_bandwidth() -> None:
    theory = in_theory(PROFILE)
    # 16 multiply-adds per cycle at 3 GHz are two registers of 8 lanes.
    assert theory.alpha["ports"] == pytest.approx(WORK["ports"] / 6e9)
    assert theory.beta["ram"] == pytest.approx(1 / 20e9) and theory.beta["l2"] < theory.beta["ram"]
    work = Features({"ports": 6e9}, {"ram": 1e9}, 0.0)
    assert CostModel.of(PROFILE).seconds("gemm", "fp32", work).seconds == pytest.approx(WORK["ports"] + 0.25 * 0.05)
    bare = parse_profile("accelerator: {name: bare}", "x")
    few = CostModel.of(bare).seconds("gemm", "fp32", Features({"ports": 1e6}, {}))
    assert 0 < few.seconds < 0.1 and few.spread >= few.seconds


def test_corrections_multiply() -> None:
    features = Features({"ports": 1e6}, {})
    plain = CostModel.of(PROFILE).seconds("gemm", "fp32", features).seconds
    twice = CostModel.of(PROFILE, correction=lambda kernel, precision, features, seconds: 2.0)
    assert twice.seconds("gemm", "fp32", features).seconds == pytest.approx(2 * plain)


def test_features_are_numbers_and_read_back() -> None:
    features = _features(np.random.default_rng(9))
    numbers = features.numbers()
    assert numbers["launches"] == features.launches and numbers["bytes.l2"] == features.bytes["l2"]
    assert Features.read({**numbers, "other": 3.0}) == features


def test_precisions() -> None:
    assert [precision_of(n) for n in ("float32", "float16", "int8", "int64")] == ["fp32", "fp16", "int8", "fp32"]


def _copy(count: int) -> Call:
    b = Builder("scale")
    x, w, y = b.input("x", FLOAT32), b.input("w", FLOAT32), b.output("y", FLOAT32)
    with b.chunks(4) as chunk, b.loop(0, count // 4, 8) as i:
        at = b.let(chunk * (count // 4) + i)
        b.store(y, at, b.load(x, at, 8) * b.load(w, at, 8))
    func, _ = b.finish()
    return Call(func, ("in", "weights", "out"))


@pytest.mark.parametrize("count", [1024, 1 << 16, 1 << 20])
def test_activations_come_from_the_nearest_cache_that_holds_them(count: int) -> None:
    sizes = {"in": 4 * count, "weights": 4 * count, "out": 4 * count}
    found = features_of([_copy(count)], sizes, ["weights"], PROFILE)
    assert set(found.work) == set(WORK) and found.work["load"] == count / 4 and found.work["store"] == count / 8
    assert found.launches == 1 and found.penalty == {"chunks": 4}
    assert found.bytes["ram"] == 4 * count, "weights alone come from memory: 16 MiB of cache hold the others"
    assert found.bytes["l3"] == (12 if 8 * count > 0.8 * 512 * 1024 else 4) * count
    assert found.bytes["l2"] == (12 if 8 * count > 0.8 * 32 * 1024 else 4) * count
    assert features_of([_copy(count)] * 2, sizes, ["weights"], PROFILE).launches == 2


def test_operations_tell_how_often_loops_run_whose_bounds_lie_in_memory() -> None:
    b = Builder("table")
    at, x, y = b.input("at", INT64), b.input("x", FLOAT32), b.output("y", FLOAT32)
    with b.chunks(4) as chunk:
        total = b.var(b.load(x, 0, 8), "total")
        with b.loop(0, b.load(at, chunk)) as i:
            b.assign(total, mad(total, b.load(x, i * 8, 8), total))
        b.store(y, chunk * 8, total)
    func, _ = b.finish()
    call, sizes = Call(func, ("at", "x", "y")), {"at": 32, "x": 4096, "y": 128}
    # 4 chunks of 9 multiply-adds of 8 lanes.
    told = features_of([call], sizes, [], PROFILE, flops=4 * 9 * 8 * 2)
    assert told.work["arithmetic"] == pytest.approx(4 * 9) and told.work["chain"] == pytest.approx(4 * 9)
    assert features_of([call], sizes, [], PROFILE).work["arithmetic"] == 4
