"""Every tiny model end to end: package against ONNX Runtime, and the same bytes at one and two threads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from meta_infer import api
from meta_infer.frontend.import_model import import_model
from meta_infer.runtime.session import load
from meta_infer.verify.metrics import distance
from meta_infer.verify.reference import reference_session, run_reference
from meta_infer.verify.samples import random_inputs, shape_points

from .tiny_models import MODELS


@pytest.mark.parametrize("name", MODELS)
def test_package_equals_onnx_runtime(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.onnx"
    onnx.save(MODELS[name](), path)
    package = api.build(path, verify=False).path
    assert package is not None
    graph, reference = import_model(path), reference_session(path)
    for seed in range(5):
        for dims in shape_points(graph.input_symbols, 3):
            inputs = random_inputs(graph, dims, seed)
            want = run_reference(reference, inputs)
            found = []
            for threads in (1, 2):
                with load(package, threads=threads) as session:
                    found.append(session.run(None, inputs))
            for one, two, expected in zip(*found, want, strict=True):
                assert one.shape == expected.shape and one.dtype == expected.dtype
                assert one.tobytes() == two.tobytes()
                if expected.dtype.kind == "f":
                    assert distance(one, expected).relative <= (2e-3 if expected.dtype == np.float16 else 1e-5)
                else:
                    np.testing.assert_array_equal(one, expected)


@pytest.mark.parametrize("mode", ["separate", "poison"])
@pytest.mark.parametrize("name", MODELS)
def test_arena_modes_change_nothing(name: str, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A buffer read before it is written, or after its range ended, shows as NaN or as another value."""
    path = tmp_path / f"{name}.onnx"
    onnx.save(MODELS[name](), path)
    package = api.build(path, verify=False).path
    assert package is not None
    graph = import_model(path)
    inputs = random_inputs(graph, shape_points(graph.input_symbols, 2)[-1], 7)
    with load(package, threads=1) as session:
        want = session.run(None, inputs)
    monkeypatch.setenv("META_INFER_ARENA", mode)
    with load(package, threads=1) as session:
        for _ in range(2):
            for a, b in zip(session.run(None, inputs), want, strict=True):
                assert a.tobytes() == b.tobytes()
