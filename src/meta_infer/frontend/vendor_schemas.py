"""Schemas of the operators that ONNX Runtime adds to ONNX: fused and quantised ops that its tools write into models.

They are built as `onnx.defs.OpSchema` values and looked up in schemas.py; nothing is registered with onnx, whose own
checker goes on knowing nothing of them. Names, defaults and types are those of `get_all_operator_schema()` of ONNX
Runtime 1.32; two stand in ONNX's own domain, where its optimiser puts them at any opset.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache

from onnx import defs, helper

Kind = defs.OpSchema.AttrType
_Formal = defs.OpSchema.FormalParameter
_Option = defs.OpSchema.FormalParameterOption

FLOAT, INT, TEXT, FLOATS, INTS = Kind.FLOAT, Kind.INT, Kind.STRING, Kind.FLOATS, Kind.INTS

_TYPES = {
    "float": "float32 float16 bfloat16",
    "wide": "float32 float64 float16 bfloat16",
    "half": "float32 float16",
    "single": "float32",
    "byte": "int8 uint8",
    "quantised": "int8 uint8 int16 uint16 int32 int4 uint4",
    "number": "float32 float64 float16 uint32 uint64 int32 int64",
    "points": "uint8 float32 float16 bfloat16",
    "cache": "float32 float16 bfloat16 uint8 int8 float8e4m3fn",
    "any": "int8 uint8 float32",
}
"""Named sets of dtypes; a formal's type is one of these, or a dtype's own name."""


@dataclass(frozen=True)
class Must:
    """An attribute that has to be given."""

    kind: Kind


@dataclass(frozen=True)
class Vendor:
    """One op. `inputs` and `outputs` are 'name:type' words: `T=float` binds a type variable that other words share,
    a trailing `?` is optional, `*` variadic. An attribute is its default, a kind (optional, no default) or a Must.
    """

    op: str
    inputs: str
    outputs: str
    attributes: Mapping[str, object] = field(default_factory=dict)
    domain: str = "com.microsoft"


_CONV = {"auto_pad": "NOTSET", "kernel_shape": INTS, "strides": INTS, "pads": INTS, "dilations": INTS, "group": 1}
_GEMM = {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0}
_UNARY_Q = "X:T=byte X_scale:single X_zero_point:T? Y_scale:single Y_zero_point:T?"
_POOL_Q = "X:T=byte x_scale:single x_zero_point:T? y_scale:single y_zero_point:T?"
_BINARY_Q = ("A:T=byte A_scale:single A_zero_point:T? B:T B_scale:single B_zero_point:T? C_scale:single "
             "C_zero_point:T?")
_NORM = {"epsilon": 1e-12}

VENDORS: tuple[Vendor, ...] = (
    # Fused products.
    Vendor("FusedMatMul", "A:T=wide B:T", "Y:T", {"alpha": 1.0, "transA": 0, "transB": 0, "transBatchA": 0,
                                                 "transBatchB": 0}),
    Vendor("TransposeMatMul", "A:T=wide B:T", "Y:T", {"alpha": 1.0, "transA": 0, "transB": 0}),
    Vendor("FusedGemm", "A:T=number B:T C:T?", "Y:T",
           {**_GEMM, "activation": TEXT, "activation_alpha": FLOAT, "activation_beta": FLOAT,
            "activation_gamma": FLOAT}),
    Vendor("FusedConv", "X:T=wide W:T B:T? Z:T?", "Y:T", {**_CONV, "activation": TEXT, "activation_params": FLOATS}),
    Vendor("NhwcFusedConv", "X:T=half W:T B:T? Z:T?", "Y:T",
           {**_CONV, "activation": TEXT, "activation_params": FLOATS}),
    # Activations and normalisations.
    Vendor("Gelu", "X:T=wide", "Y:T"),
    Vendor("FastGelu", "X:T=wide bias:T?", "Y:T"),
    Vendor("BiasGelu", "A:T=wide B:T", "C:T"),
    Vendor("QuickGelu", "X:T=wide", "Y:T", {"alpha": 1.702}),
    Vendor("BiasSplitGelu", "X:T=float bias:T", "Y:T"),
    Vendor("LayerNormalization", "X:T=wide Scale:V=wide B:V?", "Y:V Mean:U=wide? InvStdDev:U?",
           {"axis": -1, "epsilon": 1e-5, "stash_type": 1}, domain=""),
    Vendor("SimplifiedLayerNormalization", "X:T=wide scale:V=wide", "Y:V inv_std_var:U=wide?",
           {"axis": -1, "epsilon": 1e-5, "stash_type": 1}, domain=""),
    Vendor("SkipLayerNormalization", "input:T=float skip:T gamma:T beta:T? bias:T?",
           "output:T mean:U=wide? inv_std_var:U? input_skip_bias_sum:T?", _NORM),
    Vendor("SkipSimplifiedLayerNormalization", "input:T=float skip:T gamma:T bias:T?",
           "output:T mean:U=wide? inv_std_var:U? input_skip_bias_sum:T?", _NORM),
    Vendor("EmbedLayerNormalization",
           "input_ids:int32 segment_ids:int32? word_embedding:T=half position_embedding:T segment_embedding:T? gamma:T "
           "beta:T mask:int32? position_ids:int32?", "output:T mask_index:int32? embedding_sum:T?",
           {**_NORM, "mask_index_type": INT}),
    Vendor("QEmbedLayerNormalization",
           "input_ids:int32 segment_ids:int32? word_embedding_quant:Q=byte position_embedding_quant:Q "
           "segment_embedding:Q? gamma_quant:Q beta_quant:Q mask:int32? word_embedding_scale:single "
           "position_embedding_scale:single segment_embedding_scale:single? gamma_scale:single beta_scale:single "
           "word_embedding_zero_point:Q position_embedding_zero_point:Q segment_embedding_zero_point:Q? "
           "gamma_zero_point:Q beta_zero_point:Q", "layernorm_out:single mask_index_out:int32", _NORM),
    # Attention.
    Vendor("Attention", "input:T=float weights:T bias:T? mask_index:int32? past:T? attention_bias:T? "
           "past_sequence_length:int32?", "output:T present:T?",
           {"num_heads": Must(INT), "unidirectional": 0, "qkv_hidden_sizes": INTS, "scale": FLOAT,
            "mask_filter_value": FLOAT, "do_rotary": INT, "rotary_embedding_dim": INT,
            "past_present_share_buffer": INT}),
    Vendor("QAttention", "input:A=byte weight:B=byte bias:T=half input_scale:T weight_scale:T mask_index:int32? "
           "input_zero_point:A? weight_zero_point:B? past:T?", "output:T present:T?",
           {"num_heads": Must(INT), "unidirectional": 0, "scale": FLOAT, "mask_filter_value": FLOAT,
            "do_rotary": INT, "past_present_share_buffer": INT}),
    Vendor("MultiHeadAttention",
           "query:T=float key:T? value:T? bias:T? key_padding_mask:int32? attention_bias:T? past_key:T? past_value:T? "
           "past_sequence_length:int32? cache_indirection:int32?",
           "output:T present_key:T? present_value:T? qk:float?",
           {"num_heads": Must(INT), "unidirectional": 0, "scale": FLOAT, "mask_filter_value": FLOAT}),
    Vendor("GroupQueryAttention",
           "query:T=float key:T? value:T? past_key:C=cache? past_value:C? seqlens_k:int32 total_sequence_length:int32 "
           "cos_cache:T? sin_cache:T? position_ids:int64? attention_bias:T? head_sink:T? k_scale:single? "
           "v_scale:single? q_norm_weight:T? k_norm_weight:T? query_seqlens:int32?",
           "output:T present_key:C? present_value:C? output_qk:T?",
           {"num_heads": Must(INT), "kv_num_heads": Must(INT), "scale": FLOAT, "softcap": FLOAT, "causal": 1,
            "local_window_size": -1, "do_rotary": INT, "rotary_interleaved": INT, "smooth_softmax": -1,
            "qk_output": 0, "qk_norm_epsilon": 1e-6, "q_norm_epsilon": FLOAT, "k_norm_epsilon": FLOAT,
            "k_quant_type": "NONE", "v_quant_type": "NONE", "kv_cache_bit_width": INT, "sliding_window_cache": 0}),
    Vendor("RotaryEmbedding", "input:T=float position_ids:int64 cos_cache:T sin_cache:T", "output:T",
           {"interleaved": INT, "num_heads": INT, "rotary_embedding_dim": INT, "scale": FLOAT,
            "is_packed_batching": INT}),
    # Quantised weights and integer products.
    Vendor("MatMulNBits", "A:T=float B:uint8 scales:T zero_points:points? g_idx:int32? bias:T?", "Y:T",
           {"K": Must(INT), "N": Must(INT), "bits": 4, "block_size": Must(INT), "accuracy_level": 0,
            "weight_prepacked": 0}),
    Vendor("MatMulIntegerToFloat", "A:A=byte B:B=byte a_scale:T=half b_scale:T a_zero_point:A? b_zero_point:B? bias:T?",
           "Y:T"),
    Vendor("DynamicQuantizeMatMul", "A:single B:B=byte b_scale:single b_zero_point:B? bias:single?", "Y:single"),
    Vendor("QGemm", "A:A=byte a_scale:single a_zero_point:A B:B=byte b_scale:single b_zero_point:B C:int32? "
           "y_scale:single? y_zero_point:Z=byte?", "Y:any", {"alpha": 1.0, "transA": 0, "transB": 0}),
    Vendor("QLinearConv", "x:X=byte x_scale:single x_zero_point:X w:W=byte w_scale:single w_zero_point:W "
           "y_scale:single y_zero_point:Y=byte B:int32?", "y:Y", {**_CONV, "channels_last": 0}),
    Vendor("DynamicQuantizeLSTM",
           "X:single W:W=byte R:W B:single? sequence_lens:int32? initial_h:single? initial_c:single? P:single? "
           "W_scale:single W_zero_point:W R_scale:single R_zero_point:W", "Y:single? Y_h:single? Y_c:single?",
           {"direction": "forward", "hidden_size": INT, "activations": Kind.STRINGS, "activation_alpha": FLOATS,
            "activation_beta": FLOATS, "clip": FLOAT, "input_forget": 0}),
    # Quantised elementwise ops and pools.
    Vendor("NhwcMaxPool", "x:T=byte", "y:T",
           {"auto_pad": "NOTSET", "kernel_shape": Must(INTS), "strides": INTS, "pads": INTS, "dilations": INTS,
            "ceil_mode": 0}),
    Vendor("QLinearAdd", _BINARY_Q, "C:T"),
    Vendor("QLinearMul", _BINARY_Q, "C:T"),
    Vendor("QLinearSigmoid", _UNARY_Q, "Y:T"),
    Vendor("QLinearLeakyRelu", _UNARY_Q, "Y:T", {"alpha": 0.01}),
    Vendor("QLinearSoftmax", "X:T=byte X_scale:single x_zero_point:T? y_scale:single y_zero_point:T", "Y:T",
           {"axis": -1, "opset": Must(INT)}),
    Vendor("QLinearConcat", "Y_scale:single Y_zero_point:T=byte inputs:any*", "Y:T", {"axis": Must(INT)}),
    Vendor("QLinearWhere", "condition:bool X:T=byte x_scale:single x_zero_point:T Y:T y_scale:single y_zero_point:T "
           "z_scale:single z_zero_point:T", "Z:T"),
    Vendor("QLinearAveragePool", _POOL_Q, "Y:T",
           {"auto_pad": "NOTSET", "kernel_shape": Must(INTS), "strides": INTS, "pads": INTS, "ceil_mode": 0,
            "count_include_pad": 0, "channels_last": 0}),
    Vendor("QLinearGlobalAveragePool", _POOL_Q.replace("?", ""), "Y:T", {"channels_last": 0}),
    Vendor("QuantizeLinear", "x:half y_scale:half y_zero_point:T=quantised?", "y:quantised", {"axis": INT}),
    Vendor("DequantizeLinear", "x:T=quantised x_scale:S=half x_zero_point:T?", "y:S", {"axis": INT}),
)


@cache
def vendor_schemas() -> dict[tuple[str, str], defs.OpSchema]:
    """(domain, op) -> schema; all are of version 1."""
    return {(vendor.domain, vendor.op): _schema(vendor) for vendor in VENDORS}


def _schema(vendor: Vendor) -> defs.OpSchema:
    bound: dict[str, str] = {}
    inputs, outputs = (list(_formals(words, bound)) for words in (vendor.inputs, vendor.outputs))
    constraints = [(name, [_onnx_type(dtype) for dtype in dtypes.split()], "") for name, dtypes in bound.items()]
    attributes = [_attribute(name, given) for name, given in vendor.attributes.items()]
    return defs.OpSchema(vendor.op, vendor.domain, 1, inputs=inputs, outputs=outputs, type_constraints=constraints,
                         attributes=attributes)


def _formals(words: str, bound: dict[str, str]) -> Iterator[_Formal]:
    """Formal parameters; every type variable, and every set of dtypes used without one, is added to `bound`."""
    for word in words.split():
        name, wanted = word.split(":")
        option = {"?": _Option.Optional, "*": _Option.Variadic}.get(wanted[-1], _Option.Single)
        variable, _, kind = wanted.rstrip("?*").partition("=")
        if not kind and variable not in bound:
            kind, variable = variable, f"{name} type"
        if kind:
            bound[variable] = _TYPES.get(kind, kind)
        yield _Formal(name, variable, param_option=option, is_homogeneous=option != _Option.Variadic)


def _onnx_type(dtype: str) -> str:
    return f"tensor({ {'float32': 'float', 'float64': 'double'}.get(dtype, dtype) })"


def _attribute(name: str, given: object) -> defs.OpSchema.Attribute:
    if isinstance(given, Must):
        return defs.OpSchema.Attribute(name, given.kind, required=True)
    if isinstance(given, Kind):
        return defs.OpSchema.Attribute(name, given, required=False)
    return defs.OpSchema.Attribute(name, default_value=helper.make_attribute(name, given))
