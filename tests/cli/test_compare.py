"""`compare`: against ONNX Runtime, per layer, and against recorded tensors; beyond the tolerance it exits with 9."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime

from tests.cli.conftest import Cli
from tests.cli.small_model import write_model

Built = tuple[Path, Path]


def test_outputs(cli: Cli, built: Built) -> None:
    ended = cli("compare", built[1], "--samples", "4")
    assert ended.code == 0, ended.err
    assert [line.split()[:3] for line in ended.out.splitlines() if line.startswith("y ")] == [
        ["y", str(i + 1), f"{batch}x20"] for i, batch in enumerate((1, 22, 43, 64))]


def test_layers_at_fused_boundaries(cli: Cli, built: Built) -> None:
    found = cli("compare", built[1], "--layers", "--json").json
    assert found["passed"] and found["first_beyond"] is None
    assert [row["tensor"] for row in found["layers"]][0] == "hidden"
    assert {"max_abs", "cosine", "sqnr_db", "relative"} <= set(found["layers"][0])


def test_beyond_the_tolerance(cli: Cli, built: Built) -> None:
    ended = cli("compare", built[1], "--layers", "--tolerance", "1e-30")
    assert ended.code == 9 and "first beyond" in ended.out and "error: verify: tensor '" in ended.err
    ended = cli("compare", built[1], "--tolerance", "1e-30", "--json")
    assert ended.code == 9 and ended.json["first_beyond"] == "y" and not ended.json["passed"]


def test_recorded_tensors(cli: Cli, built: Built, tmp_path: Path) -> None:
    x = np.random.default_rng(5).standard_normal((3, 12)).astype(np.float32)
    y, = onnxruntime.InferenceSession(built[0]).run(None, {"x": x})
    np.savez(tmp_path / "good.npz", x=x, y=y)
    np.savez(tmp_path / "bad.npz", x=x, y=y + np.float32(0.1))
    np.savez(tmp_path / "lacks.npz", y=y)
    assert cli("compare", built[1], "--reference", tmp_path / "good.npz").code == 0
    assert cli("compare", built[1], "--reference", tmp_path / "bad.npz").code == 9
    lacks = cli("compare", built[1], "--reference", tmp_path / "lacks.npz")
    assert lacks.code == 7 and "'x'" in lacks.err
    for name, arrays, words in (("nothing", {"z": y}, "no tensor"), ("shape", {"y": y[:2]}, "has shape [2, 20]"),
                                ("text", {"y": np.full(y.shape, "a")}, "neither numbers")):
        np.savez(tmp_path / f"{name}.npz", x=x, **arrays)
        ended = cli("compare", built[1], "--reference", tmp_path / f"{name}.npz")
        assert ended.code == 7 and words in ended.err
    np.savez(tmp_path / "more.npz", x=x, y=y, other=y)
    ended = cli("compare", built[1], "--reference", tmp_path / "more.npz")
    assert ended.code == 0 and ended.out.splitlines()[-1].endswith(": other")
    none = cli("compare", built[1], "--reference", tmp_path / "none.npz")
    assert none.code == 7 and "none.npz" in none.err


def test_the_model_may_have_moved(cli: Cli, built: Built, tmp_path: Path) -> None:
    model, moved = write_model(tmp_path / "small.onnx"), tmp_path / "moved.onnx"
    assert cli("build", "-m", model, "--no-verify").code == 0
    model.rename(moved)
    ended = cli("compare", tmp_path / "small.bin")
    assert ended.code == 2 and "--model" in ended.err
    assert cli("compare", tmp_path / "small.bin", "--model", moved).code == 0


def test_no_package(cli: Cli, tmp_path: Path) -> None:
    assert cli("compare", tmp_path / "none.bin").code == 6
