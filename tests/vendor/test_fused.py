"""com.microsoft's fused products and activations against ONNX Runtime's kernels."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from .one_model import NodeCase, check, model_of, run_package, weights

RNG = np.random.default_rng(4)


def x(*shape: int) -> np.ndarray:
    return RNG.uniform(-2, 2, shape).astype(np.float32)


def test_matmul(tmp_path: Path) -> None:
    cases = [NodeCase("FusedMatMul", [x(*a), x(*b)], attrs) for a, b, attrs in (
        ((3, 5), (5, 7), {"alpha": 0.5}),
        ((5, 3), (5, 7), {"transA": 1, "alpha": -2.0}),
        ((3, 5), (7, 5), {"transB": 1}),
        ((2, 3, 5, 4), (2, 3, 7, 5), {"transA": 1, "transB": 1, "alpha": 0.125}),
        ((5,), (5, 7), {"alpha": 3.0}),
        ((2, 1, 4, 5), (3, 6, 5), {"transB": 1}),
        ((0, 5), (5, 7), {"alpha": 0.5}),
        ((4, 2, 3, 5), (2, 3, 5, 6), {"transBatchA": 1}),
        ((2, 3, 4, 5), (6, 2, 3, 5), {"transBatchB": 1, "transB": 1}),
        ((5, 2, 3, 4), (2, 3, 5, 6), {"transBatchA": 1, "transA": 1}),
    )]
    cases.append(NodeCase("FusedMatMul", [x(3, 5), x(7, 5)], {"transB": 1, "alpha": 0.25}, constants=weights(1)))
    check(cases, tmp_path)


def test_gemm(tmp_path: Path) -> None:
    check([NodeCase("FusedGemm", [x(3, 5), x(5, 7), x(7)], {"activation": "Relu"}),
           NodeCase("FusedGemm", [x(5, 3), x(7, 5), x(3, 1)],
                    {"activation": "LeakyRelu", "activation_alpha": 0.125, "transA": 1, "transB": 1, "alpha": 0.5,
                     "beta": 2.0}, constants=weights(1)),
           NodeCase("FusedGemm", [x(3, 5), x(5, 7), x(3, 7)], {"activation": "Tanh"}),
           NodeCase("FusedGemm", [x(3, 5), x(5, 7)], {"activation": "Sigmoid"})], tmp_path)


def test_conv(tmp_path: Path) -> None:
    image, weight, bias = x(2, 4, 7, 9), x(6, 4, 3, 3), x(6)
    same = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    check([NodeCase("FusedConv", [image, weight, bias], {"activation": "Relu", **same}, constants=weights(1, 2)),
           NodeCase("FusedConv", [image, weight], {"activation": "LeakyRelu", "activation_params": [0.25], **same}),
           NodeCase("FusedConv", [image, weight, bias], {"activation": "Clip", "activation_params": [-0.5, 0.75]}),
           NodeCase("FusedConv", [image, weight, None, x(2, 6, 7, 9)], {"activation": "Relu", **same},
                    constants=weights(1)),
           NodeCase("FusedConv", [image, weight, bias],
                    {"activation": "HardSigmoid", "activation_params": [0.2, 0.5], "strides": [2, 2]}),
           NodeCase("FusedConv", [image, x(4, 1, 3, 3)], {"activation": "Sigmoid", "group": 4, **same}),
           NodeCase("FusedConv", [image, weight, bias], same)], tmp_path)


def test_conv_with_channels_last(tmp_path: Path) -> None:
    """ONNX Runtime has it on some processors only: it must equal FusedConv on transposed tensors."""
    image, weight, bias, z = x(2, 4, 7, 9), x(6, 4, 3, 3), x(6), x(2, 6, 7, 9)
    attrs = {"activation": "Relu", "kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    last = [np.ascontiguousarray(value.transpose(0, 2, 3, 1)) for value in (image, z)]
    model, feeds = model_of([NodeCase("FusedConv", [image, weight, bias, z], attrs),
                             NodeCase("NhwcFusedConv", [last[0], weight, bias, last[1]], attrs)])
    found = run_package(model, feeds, tmp_path)
    np.testing.assert_allclose(found[1].transpose(0, 3, 1, 2), found[0], 1e-4, 1e-5)


def test_gelu_family(tmp_path: Path) -> None:
    check([NodeCase("Gelu", [x(3, 7)]), NodeCase("Gelu", [x(0, 7)]), NodeCase("BiasGelu", [x(2, 3, 33), x(33)]),
           NodeCase("FastGelu", [x(2, 3, 33), x(33)]), NodeCase("FastGelu", [x(5)]),
           NodeCase("QuickGelu", [x(3, 7)]), NodeCase("QuickGelu", [x(3, 7)], {"alpha": 1.0})], tmp_path)


def test_bias_split_gelu(tmp_path: Path) -> None:
    """ONNX Runtime has no CPU kernel for it: the definition is written out."""
    value, bias = x(2, 3, 10), x(10)
    model, feeds = model_of([NodeCase("BiasSplitGelu", [value, bias])])
    total = value + bias
    right = total[..., 5:]
    want = total[..., :5] * 0.5 * right * (1 + np.vectorize(math.erf)(right / math.sqrt(2)))
    np.testing.assert_allclose(run_package(model, feeds, tmp_path)[0], want, 1e-4, 1e-5)
