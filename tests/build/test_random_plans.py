"""Random graphs, and real models where they are, under plans drawn at random: `random_plans.py` says how."""

from __future__ import annotations

from pathlib import Path

import pytest

from meta_infer import api
from tests.real_models import ModelMissing, find_model

from .random_plans import check_plans, plans_at_random

FIRST, TOGETHER = 900_000, 25


@pytest.mark.parametrize("batch", range(2))
def test_random_graphs(batch: int) -> None:
    first = FIRST + batch * TOGETHER
    verdicts = check_plans(range(first, first + TOGETHER))
    failed = {seed: v.detail for seed, v in verdicts.items() if v.failed and v.kind != "doubtful"}
    assert not failed, f"python -m tests.build.random_plans --first {first} --count {TOGETHER}: {failed}"


@pytest.mark.parametrize("name", ["squeezenet1_1", "shufflenetv2_x1_0", "bert_mini_s128"])
def test_real_models(name: str, tmp_path: Path) -> None:
    """As drawn, each equals ONNX Runtime: the build verifies that."""
    try:
        model = find_model(name, tmp_path)
    except ModelMissing as reason:
        pytest.skip(f"REAL MODEL NOT CHECKED: {reason}")
    with plans_at_random(1):
        assert api.build(model, output=tmp_path / "m.bin").comparisons
