"""Packages of graphs in which moves were made, against ONNX Runtime running the model as it came."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from meta_infer import api
from meta_infer.passes.moves import MOVES
from tests.passes.move_graphs import RECIPES, Maker, projections
from tests.real_models import ModelMissing, find_model

from .moved_plans import moves_made, onnx_of

EACH = 6


@pytest.mark.parametrize("name", MOVES)
def test_random_graphs(name: str, tmp_path: Path) -> None:
    """Each kind of move in random graphs that have it; the build compares all their outputs."""
    recipes = [recipe for recipe in RECIPES[name] if recipe is not projections]        # Attention is raised, not given
    onnx.save(onnx_of([recipe(Maker(1000 + seed)) for recipe in recipes for seed in range(EACH // len(recipes))]),
              tmp_path / "m.onnx")
    with moves_made(name, l2_bytes=2048) as made:
        assert api.build(tmp_path / "m.onnx", output=tmp_path / "m.bin").comparisons
    assert sum(move.move == name for move in made) >= EACH // 2


@pytest.mark.parametrize("model, name, step", [("bert_mini_s128", "merge_parallel", 1),
                                               ("ppocr_cls", "pad_channels", 16)])
def test_real_models(model: str, name: str, step: int, tmp_path: Path) -> None:
    try:
        path = find_model(model, tmp_path)
    except ModelMissing as reason:
        pytest.skip(f"REAL MODEL NOT CHECKED: {reason}")
    with moves_made(name, aligned_channel=step) as made:
        assert api.build(path, output=tmp_path / "m.bin").comparisons
    assert any(move.move == name for move in made)
