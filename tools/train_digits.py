#!/usr/bin/env python3
"""Train the network of the `demo` command and write it as ONNX, with held-out samples beside it.

    pip install scikit-learn onnx
    python tools/train_digits.py [OUT_DIR]          default: src/meta_infer/demo; about a minute on one core

Network: conv 3x3 (16) + BN + ReLU, conv 3x3 (32) + BN + ReLU, max pool 2x2, conv 3x3 (64) + ReLU, global
average pool, fully connected (10), softmax. Data: scikit-learn's digits, 1797 scans of 8x8 pixels, a quarter
of them held out. Forward and backward are written in numpy: the project depends on no training framework.
Seeds are fixed; another BLAS may round differently and give other weights of the same quality.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits

Params = dict[str, np.ndarray]
Saved = tuple[np.ndarray, np.ndarray]       # (normalised input, 1 / deviation per channel)

SEED = 20240
TEST_SAMPLES = 450
EPOCHS = 40
BATCH = 64
LEARNING_RATE = 3e-3
WEIGHT_DECAY = 1e-4
EPSILON = 1e-5                   # of BatchNormalization
RUNNING = 0.9                    # how much of the running statistics each batch keeps
OPSET = 22


class Split(NamedTuple):
    """Images float32 [n, 1, 8, 8] in 0..1 with labels int64 [n]."""

    images: np.ndarray
    labels: np.ndarray


def load_data() -> tuple[Split, Split]:
    """(training, test), split at random by the seed."""
    digits = load_digits()
    images = (digits.images[:, None] / 16.0).astype(np.float32)
    order = np.random.default_rng(SEED).permutation(len(images))
    images, labels = images[order], digits.target[order].astype(np.int64)
    test = Split(images[:TEST_SAMPLES], labels[:TEST_SAMPLES])
    return Split(images[TEST_SAMPLES:], labels[TEST_SAMPLES:]), test


def initial_params(rng: np.random.Generator) -> Params:
    """He-normal weights; gains 1, biases 0."""
    params: Params = {}
    for name, out_channels, in_channels in (("conv1", 16, 1), ("conv2", 32, 16), ("conv3", 64, 32)):
        weight = rng.standard_normal((out_channels, in_channels, 3, 3)) * np.sqrt(2 / (9 * in_channels))
        params[f"{name}.weight"] = weight.astype(np.float32)
    for name, channels in (("bn1", 16), ("bn2", 32)):
        params[f"{name}.scale"] = np.ones(channels, np.float32)
        params[f"{name}.bias"] = np.zeros(channels, np.float32)
    params["conv3.bias"] = np.zeros(64, np.float32)
    params["fc.weight"] = (rng.standard_normal((10, 64)) * np.sqrt(1 / 64)).astype(np.float32)
    params["fc.bias"] = np.zeros(10, np.float32)
    return params


def initial_statistics() -> Params:
    return {"bn1.mean": np.zeros(16, np.float32), "bn1.var": np.ones(16, np.float32),
            "bn2.mean": np.zeros(32, np.float32), "bn2.var": np.ones(32, np.float32)}


def im2col(x: np.ndarray) -> np.ndarray:
    """[n, c, h, w] -> [n, h, w, c * 9]: the 3x3 window around every pixel, zeros outside."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    n, c, h, w = x.shape
    return windows.transpose(0, 2, 3, 1, 4, 5).reshape(n, h, w, c * 9)


def conv(x: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """3x3 convolution with padding 1: ([n, out, h, w], the columns that the backward pass needs)."""
    columns = im2col(x)
    return (columns @ weight.reshape(len(weight), -1).T).transpose(0, 3, 1, 2), columns


def conv_backward(grad: np.ndarray, columns: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(gradient of the input, gradient of the weight)."""
    rows = grad.transpose(0, 2, 3, 1).reshape(-1, len(weight))
    weight_grad = (rows.T @ columns.reshape(len(rows), -1)).reshape(weight.shape)
    # The input's gradient is the convolution with the kernel turned round and the channels swapped.
    turned = np.ascontiguousarray(weight[:, :, ::-1, ::-1].swapaxes(0, 1))
    return conv(grad, turned)[0], weight_grad


def per_channel(vector: np.ndarray) -> np.ndarray:
    return vector[None, :, None, None]


def batch_norm(x: np.ndarray, name: str, params: Params, statistics: Params) -> tuple[np.ndarray, Saved]:
    """Normalise by the batch, and move the running statistics: (output, what the backward pass needs)."""
    mean, var = x.mean(axis=(0, 2, 3)), x.var(axis=(0, 2, 3))
    statistics[f"{name}.mean"] = RUNNING * statistics[f"{name}.mean"] + (1 - RUNNING) * mean
    statistics[f"{name}.var"] = RUNNING * statistics[f"{name}.var"] + (1 - RUNNING) * var
    inverse = per_channel(1 / np.sqrt(var + EPSILON))
    normal = (x - per_channel(mean)) * inverse
    scale, bias = params[f"{name}.scale"], params[f"{name}.bias"]
    return normal * per_channel(scale) + per_channel(bias), (normal, inverse)


def batch_norm_backward(
        grad: np.ndarray, saved: Saved, name: str, params: Params, grads: Params) -> np.ndarray:
    """The gradient of the input; adds those of scale and bias to `grads`."""
    normal, inverse = saved
    grads[f"{name}.bias"] = grad.sum(axis=(0, 2, 3))
    grads[f"{name}.scale"] = (grad * normal).sum(axis=(0, 2, 3))
    count = grad.size / grad.shape[1]
    correction = per_channel(grads[f"{name}.bias"]) + normal * per_channel(grads[f"{name}.scale"])
    return per_channel(params[f"{name}.scale"]) * inverse * (grad - correction / count)


def max_pool(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """2x2, stride 2: (output, one-hot choice in each window as [n, c, h/2, w/2, 4])."""
    n, c, h, w = x.shape
    pairs = x.reshape(n, c, h // 2, 2, w // 2, 2)
    windows = pairs.transpose(0, 1, 2, 4, 3, 5).reshape(n, c, h // 2, w // 2, 4)
    choice = np.eye(4, dtype=np.float32)[windows.argmax(axis=-1)]
    return windows.max(axis=-1), choice


def max_pool_backward(grad: np.ndarray, choice: np.ndarray) -> np.ndarray:
    n, c, h, w = grad.shape
    spread = (grad[..., None] * choice).reshape(n, c, h, w, 2, 2)
    return spread.transpose(0, 1, 2, 4, 3, 5).reshape(n, c, h * 2, w * 2)


def loss_and_gradients(split: Split, params: Params, statistics: Params) -> tuple[float, Params]:
    """Mean cross entropy of one batch, and the gradient of every parameter."""
    x, n = split.images, len(split.images)
    c1, columns1 = conv(x, params["conv1.weight"])
    b1, saved1 = batch_norm(c1, "bn1", params, statistics)
    r1 = np.maximum(b1, 0)
    c2, columns2 = conv(r1, params["conv2.weight"])
    b2, saved2 = batch_norm(c2, "bn2", params, statistics)
    p2, choice = max_pool(np.maximum(b2, 0))
    c3, columns3 = conv(p2, params["conv3.weight"])
    r3 = np.maximum(c3 + per_channel(params["conv3.bias"]), 0)
    features = r3.mean(axis=(2, 3))
    logits = features @ params["fc.weight"].T + params["fc.bias"]
    logits -= logits.max(axis=1, keepdims=True)
    probabilities = np.exp(logits)
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    loss = float(-np.log(probabilities[np.arange(n), split.labels] + 1e-30).mean())

    grads: Params = {}
    grad = (probabilities - np.eye(10, dtype=np.float32)[split.labels]) / n
    grads["fc.weight"], grads["fc.bias"] = grad.T @ features, grad.sum(axis=0)
    pixels = r3.shape[2] * r3.shape[3]
    grad = (grad @ params["fc.weight"])[:, :, None, None] / pixels * (r3 > 0)
    grads["conv3.bias"] = grad.sum(axis=(0, 2, 3))
    grad, grads["conv3.weight"] = conv_backward(grad, columns3, params["conv3.weight"])
    grad = max_pool_backward(grad, choice) * (b2 > 0)
    grad = batch_norm_backward(grad, saved2, "bn2", params, grads)
    grad, grads["conv2.weight"] = conv_backward(grad, columns2, params["conv2.weight"])
    grad = batch_norm_backward(grad * (b1 > 0), saved1, "bn1", params, grads)
    _, grads["conv1.weight"] = conv_backward(grad, columns1, params["conv1.weight"])
    return loss, grads


def shifted(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Each image moved by up to one pixel in each direction."""
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    moved = np.empty_like(images)
    for i, (dy, dx) in enumerate(rng.integers(0, 3, size=(len(images), 2))):
        moved[i] = padded[i, :, dy:dy + 8, dx:dx + 8]
    return moved


def train(data: Split) -> tuple[Params, Params]:
    """(parameters, running statistics), by Adam (Kingma and Ba, 2015) with a cosine schedule."""
    rng = np.random.default_rng(SEED)
    params, statistics = initial_params(rng), initial_statistics()
    first = {name: np.zeros_like(value) for name, value in params.items()}
    second = {name: np.zeros_like(value) for name, value in params.items()}
    steps, step = EPOCHS * (len(data.images) // BATCH), 0
    for epoch in range(EPOCHS):
        order, losses = rng.permutation(len(data.images)), []
        for start in range(0, len(order) - BATCH + 1, BATCH):
            pick = order[start:start + BATCH]
            batch = Split(shifted(data.images[pick], rng), data.labels[pick])
            loss, grads = loss_and_gradients(batch, params, statistics)
            losses.append(loss)
            rate = LEARNING_RATE * 0.5 * (1 + np.cos(np.pi * step / steps))
            step += 1
            for name, grad in grads.items():
                grad = grad + WEIGHT_DECAY * params[name] if name.endswith("weight") else grad
                first[name] = 0.9 * first[name] + 0.1 * grad
                second[name] = 0.999 * second[name] + 0.001 * grad * grad
                mean, spread = first[name] / (1 - 0.9**step), second[name] / (1 - 0.999**step)
                params[name] = (params[name] - rate * mean / (np.sqrt(spread) + 1e-8)).astype(np.float32)
        print(f"epoch {epoch + 1:2}/{EPOCHS}  loss {np.mean(losses):.4f}", flush=True)
    return params, statistics


def to_onnx(params: Params, statistics: Params) -> onnx.ModelProto:
    """The trained network with BatchNormalization nodes of their own, and a dynamic `batch`."""
    node = helper.make_node
    same = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    nodes = [
        node("Conv", ["image", "conv1.weight"], ["c1"], name="conv1", **same),
        node("BatchNormalization", ["c1", "bn1.scale", "bn1.bias", "bn1.mean", "bn1.var"], ["b1"], name="bn1",
             epsilon=EPSILON),
        node("Relu", ["b1"], ["r1"], name="relu1"),
        node("Conv", ["r1", "conv2.weight"], ["c2"], name="conv2", **same),
        node("BatchNormalization", ["c2", "bn2.scale", "bn2.bias", "bn2.mean", "bn2.var"], ["b2"], name="bn2",
             epsilon=EPSILON),
        node("Relu", ["b2"], ["r2"], name="relu2"),
        node("MaxPool", ["r2"], ["p2"], name="pool", kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", ["p2", "conv3.weight", "conv3.bias"], ["c3"], name="conv3", **same),
        node("Relu", ["c3"], ["r3"], name="relu3"),
        node("GlobalAveragePool", ["r3"], ["g"], name="average"),
        node("Flatten", ["g"], ["features"], name="flatten"),
        node("Gemm", ["features", "fc.weight", "fc.bias"], ["logits"], name="fc", transB=1),
        node("Softmax", ["logits"], ["probabilities"], name="softmax", axis=1),
    ]
    weights = {**params, **statistics}
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 8, 8])
    probabilities = helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", 10])
    initializers = [numpy_helper.from_array(value.astype(np.float32), key) for key, value in weights.items()]
    graph = helper.make_graph(nodes, "digits", [image], [probabilities], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10,
                              producer_name="tools/train_digits.py")
    onnx.checker.check_model(model, full_check=True)
    return model


def accuracy(model: onnx.ModelProto, split: Split) -> float:
    """Share of right answers, by the reference evaluator of onnx."""
    from onnx.reference import ReferenceEvaluator

    (probabilities,) = ReferenceEvaluator(model).run(None, {"image": split.images})
    return float((probabilities.argmax(axis=1) == split.labels).mean())


def main(arguments: list[str]) -> int:
    default = Path(__file__).resolve().parent.parent / "src" / "meta_infer" / "demo"
    out = Path(arguments[0]) if arguments else default
    out.mkdir(parents=True, exist_ok=True)
    training, test = load_data()
    model = to_onnx(*train(training))
    right = accuracy(model, test)
    print(f"held-out accuracy {right:.4f} on {len(test.images)} samples")
    if right < 0.97:
        print("below 0.97: nothing was written", file=sys.stderr)
        return 1
    onnx.save(model, out / "digits.onnx")
    np.savez_compressed(out / "digits_test.npz", images=test.images, labels=test.labels)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
