"""Loops and branches that change shapes, compiled, against ONNX Runtime: threads and arena modes change nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from meta_infer import api
from meta_infer.runtime.session import load
from tests.ops.onnx_case import session_of

from .loop_models import MODELS


@pytest.mark.parametrize("name", MODELS)
def test_package_equals_onnx_runtime(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, feeds = MODELS[name]()
    path = tmp_path / f"{name}.onnx"
    onnx.save(model, path)
    package = api.build(path, verify=False, shape=_ranges(model, feeds)).path
    assert package is not None
    reference = session_of(model)
    wanted = [reference.run(None, feed) for feed in feeds]
    found = _run(package, feeds, 1)
    for feed, ours, theirs in zip(feeds, found, wanted, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            assert a.dtype == b.dtype
            assert a.shape == b.shape or a.size == b.size == 0, feed
            np.testing.assert_allclose(a, b.reshape(a.shape), 1e-5, 1e-5)
    _same(_run(package, feeds, 2), found)
    for mode in ("separate", "poison"):
        monkeypatch.setenv("META_INFER_ARENA", mode)
        _same(_run(package, feeds, 1), found)


def _ranges(model: onnx.ModelProto, feeds: list[dict[str, np.ndarray]]) -> list[str]:
    """Every dynamic dimension from 1 to the largest that is fed."""
    specs = []
    for value in model.graph.input:
        dims = value.type.tensor_type.shape.dim
        named = [axis for axis, dim in enumerate(dims) if dim.dim_param]
        most = {axis: max(feed[value.name].shape[axis] for feed in feeds) for axis in named}
        if named:
            sizes = (f"1..{most[axis]}" if axis in most else "?" for axis in range(len(dims)))
            specs.append(f"{value.name}={','.join(sizes)}")
    return specs


def _run(package: Path, feeds: list[dict[str, np.ndarray]], threads: int) -> list[list[np.ndarray]]:
    """All feeds one after the other, twice: what a run leaves behind must not show in the next."""
    with load(package, threads=threads) as session:
        once = [session.run(None, feed) for feed in feeds]
        _same([session.run(None, feed) for feed in feeds], once)
    return once


def _same(a: list[list[np.ndarray]], b: list[list[np.ndarray]]) -> None:
    for x, y in zip((v for run in a for v in run), (v for run in b for v in run), strict=True):
        assert x.shape == y.shape and x.tobytes() == y.tobytes()
