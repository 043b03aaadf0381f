"""The library's samples correct the cost model of the machine they are of, and a fit stays until they are many more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from meta_infer.cost.features import COUNTED, Features
from meta_infer.cost.model import ANY, CostModel
from meta_infer.library.samples import IN_NETWORK, Sample
from meta_infer.library.store import Library
from meta_infer.search.calibrate import learned_model as module
from meta_infer.search.calibrate.learned_model import ENOUGH, cost_samples, learned_model
from tests.kernels.harness import make_profile

PROFILE = make_profile("x86-64-v3")
CPU = "test chip"
MODEL = CostModel.of(PROFILE)


def sample(i: int, factor: float = 3.0, **given: object) -> Sample:
    """A kernel that takes `factor` times what theory says of it."""
    features = Features({"ports": 1e5 * (1 + i % 37), "load": 5e4 * (1 + i % 11)}, {"l2": 1e4}, 1.0)
    seconds = factor * MODEL.theory.seconds(features)
    made = Sample("gemm", "gemm", key=f"k{given.get('place', '')}{i}", group=f"group {i // 4}", isa="x86-64-v3",
                  cpu=CPU, features=features.numbers(), seconds=seconds, peak=1e11, rounds=5,
                  made=f"2026-11-30T08:{i // 60 % 60:02}:{i % 60:02}Z")
    return replace(made, **given)


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library.open(tmp_path / "library.sqlite")


def ratio(model: CostModel) -> float:
    features = Features.read(sample(5).features)
    return model.seconds("gemm", "fp32", features).seconds / MODEL.theory.seconds(features)


def test_enough_samples_of_this_machine_correct_the_profile(library: Library) -> None:
    library.add(sample(i) for i in range(ENOUGH - 1))
    assert learned_model(PROFILE, library, CPU, 1) == MODEL
    library.add([sample(ENOUGH)])
    assert ratio(learned_model(PROFILE, library, CPU, 1)) == pytest.approx(3.0, rel=0.1)
    for cpu, threads in (("another chip", 1), (CPU, 2)):
        assert learned_model(PROFILE, library, cpu, threads) == MODEL
    assert learned_model(PROFILE, None, CPU, 1) == MODEL


def test_what_was_counted_otherwise_corrects_nothing(library: Library) -> None:
    other = [sample(i) for i in range(2 * ENOUGH)]
    library.add(replace(one, features={**one.features, "version": COUNTED + 1}) for one in other)
    assert learned_model(PROFILE, library, CPU, 1) == MODEL
    library.add(replace(one, key="n" + one.key, features=Features.read(one.features).recorded()) for one in other)
    assert ratio(learned_model(PROFILE, library, CPU, 1)) == pytest.approx(3.0, rel=0.1)


def test_a_fit_stays_until_there_is_half_as_much_more(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    library.add(sample(i) for i in range(200))
    first = learned_model(PROFILE, library, CPU, 1)
    later = [replace(sample(i, 9.0), made="") for i in range(1000, 1060)]
    library.add(later)
    assert learned_model(PROFILE, library, CPU, 1) == first, "260 samples are not 300"
    assert learned_model(PROFILE, library, CPU, 1, is_replay=True) == first
    library.add(replace(sample(i, 9.0), made="2026-11-30T09:00:00Z") for i in range(2000, 2400))
    assert ratio(learned_model(PROFILE, library, CPU, 1)) > 4.0


def test_a_replay_fits_nothing_of_its_own(library: Library) -> None:
    library.add(sample(i) for i in range(300))
    assert learned_model(PROFILE, library, CPU, 1, is_replay=True) == MODEL
    assert library.count_features(CPU, "x86-64-v3", 1) == (300, 0, "")


def test_times_within_networks_are_factors(library: Library) -> None:
    library.add(sample(i) for i in range(200))
    library.add(sample(i, 2.4, place=IN_NETWORK) for i in range(60))
    model = learned_model(PROFILE, library, CPU, 1)
    assert ratio(model) == pytest.approx(3.0, rel=0.1)
    assert model.context[ANY] == pytest.approx(0.8, rel=0.05) and model.context["gemm"] == pytest.approx(0.8, rel=0.05)


def test_samples_are_as_at_one_clock_and_count_by_age_and_compiler() -> None:
    slow = sample(0, 6.0, peak=5e10, group="slow", compiler="new")
    later = sample(4, 3.0, peak=1e11, group="slow", compiler="new", made="2026-11-30T09:00:00Z")
    usual = [sample(i, 3.0, group=f"usual {i}", compiler="new") for i in range(1, 4)]
    old = sample(9, group="old", compiler="old", made="2026-03-30T08:00:00Z")
    found = dict(zip("s123lo", cost_samples([slow, *usual, later, old]), strict=True))
    theory = MODEL.theory.seconds(found["s"].features)
    assert found["s"].seconds == pytest.approx(3 * theory), "it ran at half the clock"
    assert found["l"].seconds == pytest.approx(1.5 * MODEL.theory.seconds(found["l"].features)), (
        "later times of a group are ratios to its first")
    assert found["1"].weight == 1.0 and found["o"].weight < 0.25
    assert cost_samples([]) == [] and cost_samples([replace(slow, features={})]) == []


def test_only_the_newest_are_read(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    library.add(sample(i, 3.0 if i >= 200 else 30.0) for i in range(400))
    monkeypatch.setattr(module, "MOST", 200)
    assert ratio(learned_model(PROFILE, library, CPU, 1)) == pytest.approx(3.0, rel=0.1)
