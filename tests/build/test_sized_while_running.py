"""Models with sizes that no input bounds, built and run: results, the report, and every late buffer in the pool."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from meta_infer import api
from meta_infer.cli.main import main
from meta_infer.ir import pooling
from meta_infer.runtime.session import load
from tests.build.sized_models import CASES
from tests.build.tiny_models import MODELS
from tests.sanitizers.whole_package import CannotCheck, check

Built = tuple[str, Path, api.BuildResult]
LATE = ("loop_that_stops_early", "rows_of_an_inner_loop_that_runs_longer_each_time", "loop_with_swap_scan_and_branch")


@pytest.fixture(scope="module", params=CASES)
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Built:
    model = tmp_path_factory.mktemp("sized") / "m.onnx"
    onnx.save(CASES[request.param][0](), model)
    return request.param, model, api.build(model, verify=False)


@pytest.mark.parametrize("arena", ["", "separate", "poison"])
def test_as_onnx_runtime(built: Built, arena: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, model, result = built
    assert result.path is not None
    monkeypatch.setenv("META_INFER_ARENA", arena)
    reference = onnxruntime.InferenceSession(model)
    with load(result.path, threads=2) as session:
        for feeds in CASES[name][1]:
            for got, want in zip(session.run(None, feeds), reference.run(None, feeds), strict=True):
                assert got.shape == want.shape
                np.testing.assert_allclose(got, want, 1e-4)


def test_report_and_inspect_say_what_is_sized_while_running(built: Built,
                                                            capsys: pytest.CaptureFixture[str]) -> None:
    name, _, result = built
    rows = {row["tensor"]: row for row in result.report["sized_while_running"]}
    assert all(row["bound_bytes"] is None and row["symbols"] for row in rows.values())
    if name == "loop_that_grows":
        assert set(rows) == {"v", "rows", "v2"} and rows["rows"]["op"] == "Add"
    else:
        assert set(rows) == {"wide", "t"} and rows["t"]["nodes"] == ["Transpose_2"]
    assert main(["inspect", str(result.path)]) == 0
    shown = capsys.readouterr().out
    assert f"{len(rows)} tensors are sized while running, outside the arena:" in shown
    assert "no bound is known" in shown and max(map(len, shown.splitlines())) <= 100


@pytest.mark.parametrize("name", LATE)
def test_any_late_buffer_may_lie_in_the_pool(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With no bytes allowed in the arena for late sizes, bounded ones take the same path and give the same results."""
    onnx.save(MODELS[name](), tmp_path / "m.onnx")
    assert not api.build(tmp_path / "m.onnx").report["sized_while_running"]
    monkeypatch.setattr(pooling, "POOL_LIMIT", -1)
    monkeypatch.setenv("META_INFER_ARENA", "separate")
    rows = api.build(tmp_path / "m.onnx").report["sized_while_running"]           # compares with ONNX Runtime
    assert rows and all(row["bound_bytes"] > 0 for row in rows)


@pytest.mark.parametrize(("built", "kind"), [("loop_that_grows", "asan"), ("expand_and_tile", "tsan")],
                         indirect=["built"])
def test_clean_under_sanitizers(built: Built, kind: str, tmp_path: Path) -> None:
    name, _, result = built
    assert result.path is not None
    try:
        check(result.path, CASES[name][1][0], kind, tmp_path / kind)
    except CannotCheck as reason:
        pytest.skip(f"PACKAGE NOT CHECKED by {kind}: {reason}")
