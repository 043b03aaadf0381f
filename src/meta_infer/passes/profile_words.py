"""What a profile calls an op: the words of `supported_ops` that stand for a node."""

from __future__ import annotations

import re

from meta_infer.ir.graph import Node, Shape
from meta_infer.ops.attrs import int_of, ints_of

_SYNONYMS = {
    "Gemm": ("gemm", "fully_connected", "linear", "dense", "matmul"),
    "MatMul": ("matmul", "batch_matmul", "fully_connected"),
    "ConvTranspose": ("conv_transpose", "deconv2d", "conv2d_transpose"),
    "MaxPool": ("max_pool", "maxpool", "max_pool2d", "pool2d"),
    "AveragePool": ("average_pool", "avgpool", "avg_pool2d", "average_pool2d", "pool2d"),
    "GlobalAveragePool": ("global_average_pool", "global_avg_pool", "average_pool"),
    "LayerNormalization": ("layer_normalization", "layer_norm", "layernorm"),
    "LSTM": ("lstm",),
    "GRU": ("gru",),
}


def profile_words(node: Node, shape: Shape | None = None) -> tuple[str, ...]:
    """Words any of which, in `supported_ops`, means that the device runs `node`; `shape` is its output's."""
    if node.op == "Conv":
        return (_conv_word(node, shape),)
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", node.op).lower()
    if node.op == "Clip" and (node.attrs.get("min"), node.attrs.get("max")) == (0, 6):
        return ("relu6", "clip", "elementwise_clip")
    return tuple(dict.fromkeys((*_SYNONYMS.get(node.op, ()), snake, f"elementwise_{snake}")))


def _conv_word(node: Node, shape: Shape | None) -> str:
    group, spatial = int_of(node.attrs, "group", 1), len(ints_of(node.attrs, "kernel_shape"))
    depthwise = group > 1 and shape is not None and shape[1] == group
    return f"{'depthwise_' if depthwise else 'grouped_' if group > 1 else ''}conv{spatial}d"
