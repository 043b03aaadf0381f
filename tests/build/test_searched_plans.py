"""Plans that the integer program makes of random prices: covers, moves, variants and formats that no rule would take.

Whatever the prices, a plan of the space has to be right: packages are compared with ONNX Runtime.
"""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from meta_infer import api
from meta_infer.backends.registry import backend_for
from meta_infer.build_config import BuildConfig
from meta_infer.hardware.profile import Profile
from meta_infer.ir.graph import Graph, Value
from meta_infer.ir.group import Layout, Plan
from meta_infer.search.default_plan import RISK_LIMIT
from meta_infer.search.fine import conversion_exists
from meta_infer.search.space.solve import Priced, Solved, solve
from meta_infer.search.space.space import Offer, make_space
from meta_infer.support.trace import Trace
from tests.real_models import ModelMissing, find_model

from .fuzz_many import check_many, draw
from .random_plans import random_variant

FIRST, TOGETHER = 910_000, 20


@contextlib.contextmanager
def solved_at_random(seed: int) -> Iterator[list[Solved]]:
    """Builds of this process take the cheapest plan of their space at random prices; gives what was solved."""
    rng, usual = random.Random(seed), api.plan_target
    made: list[Solved] = []

    def plan_target(config: BuildConfig, graph: Graph, host: Profile, trace: Trace) -> Plan:
        def prices(offer: Offer) -> list[Priced]:
            if offer.is_free:
                return [Priced(variant, 0.0) for variant in offer.variants]
            sound = [variant for variant in offer.variants if variant.risk <= RISK_LIMIT]
            tuned = [random_variant(rng, offer.group, [variant], host) for variant in sound]
            return [Priced(variant, rng.uniform(0.1, 1.0) * 1e-6) for variant in tuned if variant is not None]

        def conversion(value: Value, source: Layout, target: Layout) -> float | None:
            return rng.uniform(0.0, 1.0) * 1e-7 if conversion_exists(source, target) else None

        made.append(solve(make_space(graph, host, backend_for(host).variants), prices, conversion))
        return made[-1].plan

    api.plan_target = plan_target
    try:
        yield made
    finally:
        api.plan_target = usual


@pytest.mark.parametrize("batch", range(2))
def test_random_graphs(batch: int, tmp_path: Path) -> None:
    """The graphs of some seeds in one package."""
    first = FIRST + batch * TOGETHER
    with solved_at_random(first) as made:
        verdicts = dict(check_many(draw(range(first, first + TOGETHER)), tmp_path))
    failed = {seed: v.detail for seed, v in verdicts.items() if v.failed and v.kind != "doubtful"}
    assert made and not failed, failed


@pytest.mark.parametrize("name", ["squeezenet1_1", "bert_mini_s128", "mobilenetv2"])
def test_real_models(name: str, tmp_path: Path) -> None:
    try:
        model = find_model(name, tmp_path)
    except ModelMissing as reason:
        pytest.skip(f"REAL MODEL NOT CHECKED: {reason}")
    with solved_at_random(3) as made:
        assert api.build(model, output=tmp_path / "m.bin").comparisons
    kernels = Counter(planned.variant.kernel for planned in made[0].plan.groups)
    assert made[0].gap == 0.0 and len(kernels) > 5
