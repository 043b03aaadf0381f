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
    with moves_made(name, l2_bytes=2048, aligned_channel=4) as made:
        assert api.build(tmp_path / "m.onnx", output=tmp_path / "m.bin").comparisons
    assert sum(move.move == name for move in made) >= EACH // 2


def test_projections_of_a_real_model(tmp_path: Path) -> None:
    """Queries, keys and values of each layer are one product, and the package still equals ONNX Runtime."""
    try:
        path = find_model("bert_mini_s128", tmp_path)
    except ModelMissing as reason:
        pytest.skip(f"REAL MODEL NOT CHECKED: {reason}")
    with moves_made("merge_parallel") as made:
        assert api.build(path, output=tmp_path / "m.bin").comparisons
    assert [move.move for move in made] == ["merge_parallel"] * 4
