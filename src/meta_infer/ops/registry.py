"""All ops, as one explicit tuple of the families' tuples."""

from __future__ import annotations

from functools import cache

from meta_infer.ops import (
    activation,
    activation_forms,
    arg_max,
    assert_shape,
    attention,
    bind_dims,
    bitwise,
    cast,
    causal_conv,
    center_crop_pad,
    clip,
    col2im,
    comparison,
    concat,
    conditional,
    convolution,
    cum_sum,
    deform_conv,
    det,
    dft,
    diagonal,
    dot_product_attention,
    dynamic_lstm,
    einsum,
    elementwise_binary,
    elementwise_unary,
    expand,
    fused_attention,
    fused_product,
    gather,
    gather_nd,
    gelu_forms,
    generators,
    grid_sample,
    group_query_attention,
    gru,
    hardmax,
    identity,
    integer_product,
    iota,
    linear_attention,
    loop,
    lp_pool,
    lstm,
    matmul,
    matmul_nbits,
    max_unpool,
    mel_weights,
    ml_features,
    ml_linear,
    non_max_suppression,
    non_zero,
    norm_forms,
    normalization,
    one_hot,
    pad,
    pooling,
    quantized_elementwise,
    quantized_product,
    random,
    range,
    reduction,
    reshape,
    resize,
    resize_axis,
    reverse_sequence,
    rnn,
    roi,
    rotary,
    rotary_embedding,
    scatter,
    shape,
    skip_norm,
    slicing,
    softmax,
    storage,
    tf_idf,
    top_k,
    transpose,
    tree_ensemble,
    tree_walk,
    trigonometry,
    trilu,
    unique,
)
from meta_infer.ops.opdef import OnnxImport, OpDef

OPS: tuple[OpDef, ...] = (
    *elementwise_unary.OPS,
    *trigonometry.OPS,
    *activation.OPS,
    *elementwise_binary.OPS,
    *comparison.OPS,
    *bitwise.OPS,
    *cast.OPS,
    *storage.OPS,
    *clip.OPS,
    *identity.OPS,
    *matmul.OPS,
    *convolution.OPS,
    *integer_product.OPS,
    *matmul_nbits.OPS,
    *pooling.OPS,
    *lp_pool.OPS,
    *roi.OPS,
    *grid_sample.OPS,
    *deform_conv.OPS,
    *col2im.OPS,
    *softmax.OPS,
    *normalization.OPS,
    *reduction.OPS,
    *shape.OPS,
    *bind_dims.OPS,
    *assert_shape.OPS,
    *reshape.OPS,
    *transpose.OPS,
    *concat.OPS,
    *gather.OPS,
    *gather_nd.OPS,
    *scatter.OPS,
    *one_hot.OPS,
    *reverse_sequence.OPS,
    *top_k.OPS,
    *non_zero.OPS,
    *unique.OPS,
    *non_max_suppression.OPS,
    *slicing.OPS,
    *expand.OPS,
    *pad.OPS,
    *resize.OPS,
    *resize_axis.OPS,
    *range.OPS,
    *iota.OPS,
    *arg_max.OPS,
    *cum_sum.OPS,
    *trilu.OPS,
    *det.OPS,
    *random.OPS,
    *tree_walk.OPS,
    *lstm.OPS,
    *rnn.OPS,
    *gru.OPS,
    *linear_attention.OPS,
    *dot_product_attention.OPS,
    *conditional.OPS,
    *loop.OPS,
)

COMBINATIONS: tuple[OnnxImport, ...] = (
    *attention.IMPORTS,
    *causal_conv.IMPORTS,
    *center_crop_pad.IMPORTS,
    *einsum.IMPORTS,
    *dynamic_lstm.IMPORTS,
    *fused_attention.IMPORTS,
    *fused_product.IMPORTS,
    *group_query_attention.IMPORTS,
    *gelu_forms.IMPORTS,
    *max_unpool.IMPORTS,
    *quantized_product.IMPORTS,
    *quantized_elementwise.IMPORTS,
    *rotary.IMPORTS,
    *rotary_embedding.IMPORTS,
    *skip_norm.IMPORTS,
    *diagonal.IMPORTS,
    *hardmax.IMPORTS,
    *norm_forms.IMPORTS,
    *dft.IMPORTS,
    *mel_weights.IMPORTS,
    *generators.IMPORTS,
    *tree_ensemble.IMPORTS,
    *ml_features.IMPORTS,
    *ml_linear.IMPORTS,
    *tf_idf.IMPORTS,
    *activation_forms.IMPORTS,
)
"""ONNX ops, and ops of other vendors, that import to several core ops and have none of their own."""

RULES: tuple[OnnxImport, ...] = (*(rule for op in OPS for rule in op.onnx), *COMBINATIONS)
"""Everything that can be imported."""

_BY_NAME = {op.name: op for op in OPS}


_CUSTOM: dict[str, OpDef] = {}


def add_custom(op: OpDef) -> None:
    """Let `op`, which a user brings, be imported and named like those of OPS, for the life of the process.

    One of the same name that was added before is replaced. Raises ValueError when OPS has an op of that name.
    """
    if op.name in _BY_NAME and op.name not in _CUSTOM:
        raise ValueError(f"op {op.name!r} exists already")
    _BY_NAME[op.name] = _CUSTOM[op.name] = op
    ops_importing.cache_clear()


def op_named(name: str) -> OpDef:
    """The OpDef called `name`. Raises KeyError when there is none."""
    return _BY_NAME[name]


def op_names() -> tuple[str, ...]:
    """Names of all ops, those of users included."""
    return tuple(_BY_NAME)


@cache
def ops_importing(onnx_op: str, version: int, domain: str = "") -> OnnxImport | None:
    """The rule that imports ONNX op `onnx_op` whose schema is of `version` (its since_version); None when none does.

    A rule without `convert` keeps op name, inputs, outputs and attributes.
    """
    for rule in (*RULES, *(rule for op in _CUSTOM.values() for rule in op.onnx)):
        if rule.op == onnx_op and rule.domain == domain and rule.since <= version <= rule.until:
            return rule
    return None
