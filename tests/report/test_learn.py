"""Times in place become samples that say so; the cost model is held against them only where it was fitted."""

from __future__ import annotations

import io
import math
from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from meta_infer.cost.features import Features, group_flops
from meta_infer.cost.model import CostModel
from meta_infer.hardware.profile import Profile
from meta_infer.hardware.schema import Cost
from meta_infer.ir.group import Group
from meta_infer.ir.group_text import group_text, structure_hash
from meta_infer.ir.shapes import evaluate
from meta_infer.kernels.registry import kernels_for
from meta_infer.library.samples import IN_NETWORK, Sample
from meta_infer.report.learn import Origin, class_errors, learned_parts, samples_of
from meta_infer.report.profile import PartTime
from meta_infer.report.profile_parts import Part
from meta_infer.search.lower_again import features_again
from meta_infer.search.space.ways import way_of
from tests.kernels.harness import PROFILE
from tests.report.test_group_work import CONV, group

SIZES = {"N": 2, "H": 24}
ORIGIN = Origin("net", str(PROFILE.isa), "zig 1", "some CPU", 1)


def timed(made: Group, scale: float = 1.0, **changed: Any) -> PartTime:
    """The group as its first kernel's first variant computes it, in three rounds."""
    variant = next(v for kernel in kernels_for(made.anchor.op) for v in kernel.variants(made, PROFILE))
    way = way_of(made, variant)
    row = {"kernel": way.kernel, "variant": way.variant, "knobs": dict(way.knobs), "in": list(way.inputs),
           "out": list(way.outputs), **changed}
    turns = tuple((seconds * scale, 1e11) for seconds in (3e-4, 2e-4, 2.2e-4))
    part = Part(made.label, ("a",), way.kernel, (0,), made, row)
    return PartTime(part, 2.2e-4 * scale, 1e-5, 0.5, 1e-4, float(evaluate(group_flops(made), SIZES)), turns=turns)


def conv() -> Group:
    return group(CONV, ("w", "b"))


def test_a_sample_says_what_was_timed_where() -> None:
    (found,) = samples_of([timed(conv())], SIZES, ORIGIN, PROFILE)
    assert found.place == IN_NETWORK and found.status == "ok" and found.ok
    assert found.group == group_text(conv()) and found.structure == structure_hash(conv()) and found.op == "Conv"
    assert found.sizes == SIZES and found.threads == 1 and found.cpu == "some CPU" and found.compiler == "zig 1"
    assert found.seconds == pytest.approx(2.2e-4) and found.rounds == 3 and found.precision == "float32"
    assert found.share_of_peak == pytest.approx(evaluate(group_flops(conv()), SIZES) / 2.2e-4 / 1e11)
    assert found.features["launches"] >= 1 and found.features["work.ports"] > 0 and len(found.key) == 32


def test_equal_groups_are_one_sample_and_models_are_not() -> None:
    (both,) = samples_of([timed(conv()), timed(conv(), 3.0)], SIZES, ORIGIN, PROFILE)
    assert both.seconds == pytest.approx(2 * 2.2e-4) and both.rounds == 3
    keys = [samples_of([timed(conv())], sizes, origin, PROFILE)[0].key for sizes, origin in (
        (SIZES, ORIGIN), (SIZES, replace(ORIGIN, model="other")), (SIZES, replace(ORIGIN, threads=2)),
        ({"N": 1, "H": 24}, ORIGIN), (SIZES, replace(ORIGIN, compiler="zig 2")))]
    assert len({*keys, both.key}) == 5 and both.key == keys[0]


def test_what_says_nothing_is_left_out() -> None:
    one = timed(conv())
    rows = [replace(one, part=replace(one.part, group=None)), timed(conv(), repeats=True), replace(one, seconds=0.0),
            replace(one, part=replace(one.part, row={"kernel": "gemm"}))]
    assert samples_of(rows, SIZES, ORIGIN, PROFILE) == []


def test_code_for_another_chip_has_no_features() -> None:
    assert samples_of([timed(conv())], SIZES, replace(ORIGIN, isa="x86-64-v2"), PROFILE)[0].features == {}
    assert samples_of([timed(conv(), variant="gone")], SIZES, ORIGIN, PROFILE)[0].features == {}
    assert samples_of([timed(conv(), knobs={"no such": 3})], SIZES, ORIGIN, PROFILE)[0].features == {}


def test_features_do_not_ask_for_the_weights() -> None:
    real = conv()
    rng = np.random.default_rng(0)
    real = replace(real, constants={n: rng.standard_normal(a.shape).astype(np.float32)
                                    for n, a in real.constants.items()})
    for kernel in kernels_for("Conv"):
        for variant in list(kernel.variants(real, PROFILE))[:1]:
            ways = [features_again(made, way_of(made, variant), SIZES, PROFILE) for made in (real, conv())]
            assert ways[0] == ways[1] and ways[0] is not None, kernel.name


def fitted(kernel: str) -> Profile:
    entry = Cost.model_validate({"kernel_class": kernel, "precision": "fp32", "alpha": {"ports": 1e-10}, "beta": {},
                                 "gamma": 0.0, "delta": {}, "fitted": date(2026, 1, 1), "samples": 20, "error": 0.125})
    return replace(PROFILE, chip=PROFILE.chip.model_copy(update={"cost": (entry,)}))


def printed(samples: list[Sample], profile: Profile) -> str:
    out = io.StringIO()
    console = Console(file=out, width=100)
    for part in learned_parts(samples, class_errors(samples, profile), "lib.sqlite", profile):
        console.print(part, markup=False)
    return out.getvalue()


def test_the_cost_model_stands_beside_what_was_measured() -> None:
    (sample,) = samples_of([timed(conv())], SIZES, ORIGIN, PROFILE)
    profile = fitted(sample.kernel)
    (error,) = class_errors([sample], profile)
    told = CostModel.of(profile).seconds(sample.kernel, "fp32", Features.read(sample.features)).seconds
    assert error.kernel == sample.kernel and error.groups == 1 and error.fitted_error == 0.125
    assert error.predicted == pytest.approx(told) and math.isclose(error.error, abs(told / sample.seconds - 1))
    text = printed([sample], profile)
    assert "1 sample, 1 of them with features, in lib.sqlite" in text and "error of the fit" in text
    assert max(map(len, text.splitlines())) <= 100


def test_without_a_fit_nothing_is_compared() -> None:
    (sample,) = samples_of([timed(conv())], SIZES, ORIGIN, PROFILE)
    assert class_errors([sample], PROFILE) == [] and "has no fitted cost model" in printed([sample], PROFILE)
    threads = replace(sample, threads=2)
    assert class_errors([threads], fitted(sample.kernel)) == []
    assert "--threads 1" in printed([threads], fitted(sample.kernel))
    assert "none has features" in printed([replace(sample, features={})], fitted(sample.kernel))
