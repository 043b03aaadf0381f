"""The data of the demo: a valid model with a dynamic batch, right on samples it never saw."""

from __future__ import annotations

from importlib.resources import files

import numpy as np
import onnx
import onnxruntime
import pytest

DEMO = files("meta_infer.demo")
MODEL = (DEMO / "digits.onnx").read_bytes()


@pytest.fixture(scope="module")
def session() -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(MODEL, providers=["CPUExecutionProvider"])


@pytest.fixture(scope="module")
def samples() -> dict[str, np.ndarray]:
    with (DEMO / "digits_test.npz").open("rb") as file, np.load(file) as data:
        return dict(data)


def test_the_model_is_valid_and_untouched_by_optimisers() -> None:
    model = onnx.load_from_string(MODEL)
    onnx.checker.check_model(model, full_check=True)
    kinds = [node.op_type for node in model.graph.node]
    assert kinds.count("Conv") == 3 and kinds.count("BatchNormalization") == 2
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"


def test_the_samples(samples: dict[str, np.ndarray]) -> None:
    images, labels = samples["images"], samples["labels"]
    assert images.dtype == np.float32 and images.shape[1:] == (1, 8, 8) and len(images) >= 300
    assert labels.dtype == np.int64 and labels.shape == images.shape[:1]
    assert images.min() == 0.0 and images.max() == 1.0
    assert set(labels) == set(range(10))


@pytest.mark.parametrize("batch", [1, 2, 7, 64])
def test_it_reads_digits(
        session: onnxruntime.InferenceSession, samples: dict[str, np.ndarray], batch: int) -> None:
    images, right = samples["images"], 0
    for start in range(0, len(images), batch):
        (probabilities,) = session.run(None, {"image": images[start:start + batch]})
        np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)
        right += int((probabilities.argmax(axis=1) == samples["labels"][start:start + batch]).sum())
    assert right / len(images) >= 0.97
