"""Every op's numpy reference against ONNX Runtime, on every sample, with several seeds."""

from __future__ import annotations

import numpy as np
import pytest

from meta_infer.ops.opdef import OpDef
from meta_infer.ops.registry import OPS, RULES, op_named, ops_importing
from meta_infer.support.dtypes import dtype_of
from tests.ops.onnx_case import feeds_of, model_of, session_of

SEEDS = (0, 1, 2)
WITH_SAMPLES = [op for op in OPS if not op.is_control_flow]


@pytest.mark.parametrize("op", WITH_SAMPLES, ids=lambda op: op.name)
def test_reference_agrees_with_onnx_runtime(op: OpDef) -> None:
    for i, samples in enumerate(zip(*(op.samples(np.random.default_rng(seed)) for seed in SEEDS), strict=True)):
        if samples[0].onnx_op == "-":
            continue
        outputs = len(op.reference(samples[0].attrs, samples[0].inputs))
        session = session_of(model_of(op, samples[0], outputs))
        for seed, sample in zip(SEEDS, samples, strict=True):
            expected = session.run(None, feeds_of(session, sample))
            found = op.reference(sample.attrs, sample.inputs)
            for a, b in zip(found, expected, strict=True):
                what = f"sample {i}, seed {seed}: {sample.attrs}, shapes {[np.shape(x) for x in sample.inputs]}"
                assert (a.dtype, a.shape) == (b.dtype, b.shape), what
                np.testing.assert_allclose(a, b, sample.rtol, sample.atol, equal_nan=True, err_msg=what)


@pytest.mark.parametrize("op", WITH_SAMPLES, ids=lambda op: op.name)
def test_float64_in_gives_float64_out(op: OpDef) -> None:
    """So that a float64 run of a model is an exact reference; it agrees with the float32 run."""
    for sample in op.samples(np.random.default_rng(3)):
        first = sample.inputs[0] if sample.inputs else None
        if first is None or first.dtype != np.float32 or "to" in sample.attrs:
            continue
        wide = tuple(a.astype(np.float64) if a is not None and a.dtype == np.float32 else a for a in sample.inputs)
        for narrow, exact in zip(op.reference(sample.attrs, sample.inputs), op.reference(sample.attrs, wide),
                                 strict=True):
            assert exact.dtype == (np.float64 if dtype_of(narrow).is_float else narrow.dtype)
            if narrow.dtype == np.float32:
                np.testing.assert_allclose(narrow, exact, 1e-3, 1e-3, equal_nan=True)


@pytest.mark.parametrize("op", WITH_SAMPLES, ids=lambda op: op.name)
def test_reference_leaves_its_inputs_alone(op: OpDef) -> None:
    for sample in op.samples(np.random.default_rng(4)):
        before = [None if a is None else a.copy() for a in sample.inputs]
        for a in sample.inputs:
            if a is not None:
                a.flags.writeable = False
        op.reference(sample.attrs, sample.inputs)
        for a, b in zip(sample.inputs, before, strict=True):
            if a is not None:
                np.testing.assert_array_equal(a, b)


def test_names_are_unique_and_found() -> None:
    assert len({op.name for op in OPS}) == len(OPS)
    assert all(op_named(op.name) is op for op in OPS)


def test_imports_of_one_version_are_unambiguous() -> None:
    for rule in RULES:
        same = [r for r in RULES if (r.op, r.domain) == (rule.op, rule.domain) and r is not rule]
        assert all(r.until < rule.since or rule.until < r.since for r in same), rule.op
        assert ops_importing(rule.op, rule.since, rule.domain) is rule


@pytest.mark.parametrize("op", [op for op in WITH_SAMPLES if op.keeps_zero], ids=lambda op: op.name)
def test_keeps_zero(op: OpDef) -> None:
    for sample in op.samples(np.random.default_rng(5)):
        zeroed = (np.zeros_like(sample.inputs[0]), *sample.inputs[1:])
        for result in op.reference(sample.attrs, zeroed):
            np.testing.assert_array_equal(result, np.zeros_like(result))


@pytest.mark.parametrize("op", [op for op in WITH_SAMPLES if op.is_view], ids=lambda op: op.name)
def test_views_keep_the_order_of_elements(op: OpDef) -> None:
    for sample in op.samples(np.random.default_rng(6)):
        assert sample.inputs[0] is not None
        (result,) = op.reference(sample.attrs, sample.inputs)
        np.testing.assert_array_equal(result.reshape(-1).view(np.uint8), sample.inputs[0].reshape(-1).view(np.uint8))
