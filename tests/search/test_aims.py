"""Aims of a build as its user meets them: limits that hold, a target met or missed, power that a profile must state."""

from __future__ import annotations

from pathlib import Path

import pytest

from meta_infer import api
from meta_infer.hardware.load import load_profile
from meta_infer.hardware.probe import probe
from meta_infer.search.aims import aims_of
from meta_infer.search.whole import settle
from meta_infer.support.errors import MetaInferError, ProfileError, UnsupportedError
from tests.search.test_search import library, small_model

__all__ = ["library"]
POWER = "power: {static_w: 20, joules_per_mac: {fp32: 5.0e-12}, joules_per_byte: {memory: 60.0e-12}}\n"
LIMIT = 0.05
"""MiB: less than the plan by rule takes, and more than the smallest."""


@pytest.fixture(autouse=True)
def short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole plans of a model that takes microseconds need no seconds of runs."""
    monkeypatch.setattr(settle, "_SECONDS", 0.5)
    monkeypatch.setattr(settle, "_SLOW", 0.2)


def build(model: Path, name: str = "m.bin", **fields: object) -> api.BuildResult:
    return api.build(model, output=model.with_name(name), **{"verify_samples": 1, "hardware": "x86-64-v3", **fields})


def used(result: api.BuildResult) -> int:
    figures = result.report["figures"]
    return int(figures["arena_bytes"] + figures["weight_bytes"] + figures["prepared_bytes"])


def powered(folder: Path) -> Path:
    path = folder / "powered.yaml"
    path.write_text(probe()[0].replace("name: native", "name: powered", 1) + POWER)
    return path


def test_a_memory_limit_holds_without_a_search(tmp_path: Path) -> None:
    model = small_model(tmp_path)
    by_rule = build(model)
    assert used(by_rule) > LIMIT * 2**20 and by_rule.report["aims"]["memory_limit_from"] == "memory of the profile"
    small = build(model, memory_limit_mib=LIMIT)
    assert used(small) <= LIMIT * 2**20 and all(c.passed for c in small.comparisons)
    assert small.report["aims"]["memory_bytes"] == used(small) and not small.report["warnings"]
    least = build(model, objective="memory")
    assert used(least) <= used(small)
    with pytest.raises(UnsupportedError, match="KiB above the limit of") as error:
        build(model, memory_limit_mib=0.01)
    assert "--memory-limit" in str(error.value)


def test_a_memory_limit_holds_for_a_lock_too(tmp_path: Path) -> None:
    model = small_model(tmp_path)
    build(model)
    with pytest.raises(UnsupportedError, match="above the limit of"):
        build(model, "other.bin", replay=tmp_path / "m.bin", memory_limit_mib=LIMIT)


def searched(model: Path, monkeypatch: pytest.MonkeyPatch, **fields: object) -> api.BuildResult:
    """A build with a search, whose replay gives the same bytes."""
    fields = {"search_seconds": 600, **fields}                 # a slow machine ends like a quick one
    found = build(model, search_mode="fast", threads=1, **fields)
    assert found.path is not None
    built = found.path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setenv("META_INFER_MEASURE", "replay")
        again = build(model, search_mode="fast", threads=1, **fields)
    assert again.path is not None and again.path.read_bytes() == built
    return found


def test_a_memory_limit_holds_in_a_search(tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = searched(small_model(tmp_path), monkeypatch, memory_limit_mib=LIMIT)
    assert used(found) <= LIMIT * 2**20
    aims = found.report["aims"]
    assert aims["baseline_s"] > 0 and aims["target_s"] == pytest.approx(0.6 * aims["baseline_s"])
    assert aims["target_met"] is (aims["latency_s"] <= aims["target_s"]) and "un-optimised" in aims["target_from"]


def test_a_target_that_is_met_and_one_that_is_not(
        tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = small_model(tmp_path)
    met = searched(model, monkeypatch, target_latency_ms=50.0)
    aims = met.report["aims"]
    assert aims["target_met"] and aims["latency_s"] <= 0.05 and not met.report["warnings"]
    assert aims["spent_on"] and used(met) < aims["quickest_bytes"], "all the time there is goes into memory"

    late = searched(model, monkeypatch, target_latency_ms=1e-5)
    aims = late.report["aims"]
    assert aims["target_met"] is False and aims["bound"]["roofline_s"] > 1e-8
    (warning,) = [text for text in late.report["warnings"] if "latency" in text]
    assert "nearest to the target" in warning and "by the roofline" in warning and "--threads" in warning
    assert "no kernels reach the target" in warning and "Conv" in warning


def test_energy_needs_power_in_the_profile(tmp_path: Path) -> None:
    model = small_model(tmp_path)
    for fields in ({"objective": "energy"}, {"energy_limit_mj": 1.0}):
        with pytest.raises(ProfileError, match="states no power") as error:
            build(model, **fields)
        hint = str(error.value)
        assert all(word in hint for word in ("static_w", "joules_per_mac: {fp32", "joules_per_byte", "hardware probe"))
    assert aims_of("balanced", load_profile("native")).energy is None


def test_energy_without_a_search_goes_by_guesses(tmp_path: Path) -> None:
    model, chip = small_model(tmp_path), str(powered(tmp_path))
    found = build(model, hardware=chip, objective="energy", energy_limit_mj=10.0)
    assert any("goes by guesses" in text for text in found.report["warnings"])
    assert 0 < found.report["aims"]["energy_j"] < 0.01
    with pytest.raises(UnsupportedError, match="mJ above the limit of 1e-06 mJ"):
        build(model, hardware=chip, energy_limit_mj=1e-6)


def test_energy_in_a_search(tmp_path: Path, library: Path) -> None:
    model, chip = small_model(tmp_path), str(powered(tmp_path))
    fields = {"hardware": chip, "search_mode": "fast", "threads": 1, "search_seconds": 600}
    found = build(model, objective="balanced", **fields)
    aims = found.report["aims"]
    assert aims["objective"] == "balanced" and aims["energy_j"] > 20 * 0.9 * aims["latency_s"]
    with pytest.raises(UnsupportedError, match="a run by the profile's power figures"):
        build(model, energy_limit_mj=aims["energy_j"] * 1e3 / 50, **fields)


def test_a_chip_without_a_code_generator_only_compares(tmp_path: Path) -> None:
    found = build(small_model(tmp_path), hardware="low_power_npu", energy_limit_mj=1e-6, objective="energy")
    words = "\n".join(found.report["warnings"])
    assert "chooses nothing" in words and "energy: " in words and "above the limit" in words


def test_an_objective_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(MetaInferError, match="did you mean 'memory'|expected one of"):
        build(small_model(tmp_path), objective="memry")
