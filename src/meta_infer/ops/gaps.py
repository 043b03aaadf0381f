"""What is valid ONNX and refused, at import or for want of a kernel, as data.

Tests, documentation and checks of a model read this one list. An ONNX op that no OpDef imports is a gap
as a whole and is not listed.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class Gap:
    """A case of an ONNX op that has no way into the core ops, and what to do about it.

    `cases` are patterns of the names of operator cases of onnx that it keeps from passing.
    """

    op: str
    case: str
    reason: str
    instead: str
    cases: tuple[str, ...] = ()


GAPS: tuple[Gap, ...] = (
    Gap("Squeeze", "no axes, and a dynamic size that may be 1", "the rank would depend on the input", "give the axes"),
    Gap("Split", "unequal parts without sizes before opset 18", "not defined by ONNX", "give the sizes"),
    Gap("BatchNormalization", "training mode before opset 14", "superseded", "opset 14 or newer"),
    Gap("BatchNormalization", "spatial=0 (opset 7)", "one statistic per element", "opset 9 or newer"),
    Gap("MaxPool", "Indices, with auto_pad SAME of a dynamic size that is no multiple of the stride",
        "the positions would be those in a tensor padded by amounts that vary", "a step in --shape"),
    Gap("ConvInteger", "auto_pad SAME of such a size and a zero point computed while running",
        "it is padded by that number", "a step in --shape"),
    Gap("Resize", "align_corners by scales where scale * size is no integer", "the last element meets the last one, as "
        "in ONNX Runtime; the function of the specification counts fractions of an element", "sizes for scales",
        ("test_resize_downsample_scales_*_align_corners",)),
    Gap("LSTM", "an activation that ONNX does not list for it", "its meaning is not defined", "a listed one"),
    Gap("RNN", "an activation that ONNX does not list for it", "its meaning is not defined", "a listed one"),
    Gap("GRU", "ScaledTanh without activation_alpha and activation_beta", "ONNX gives it no defaults", "both lists"),
    Gap("Cast", "to and from strings", "tensors of strings are not supported", "convert outside of the model"),
    Gap("Loop", "a carried value that changes its rank or dtype", "the body would be another in every pass",
        "Reshape to one rank"),
    Gap("Loop", "carried sequences and optionals", "only tensors have memory", "Concat in the body, or a scan output"),
    Gap("If", "branches that give another rank or dtype", "what follows would be another graph", "Reshape in a branch"),
    Gap("AffineGrid", "operator cases of onnx that spell it out, with a computed size", "they choose between two and "
        "three dimensions by If and Squeeze while running: tensors of unknown rank", "AffineGrid itself, which is "
        "native", ("test_affine_grid_*_expanded",)),
    Gap("If", "sequences and optionals as results", "only tensors have memory", "tensors"),
    Gap("DFT", "two operator cases of onnx",
        "they expect 1.9e-7 of a single-precision FFT's rounding where the exact result is 0",
        "nothing: ours is closer", ("test_dft_inverse", "test_dft_inverse_opset19")),
    Gap("Bernoulli", "operator cases of onnx", "ONNX leaves the generator open; they expect numpy's draws from the "
        "middle of a sequence", "nothing: draws are reproducible, from a seed", ("test_bernoulli*",)),
    Gap("Attention", "do_rotary or past_present_share_buffer (com.microsoft)", "tensors are never written in place",
        "RotaryEmbedding before it; past and present as two tensors"),
    Gap("MultiHeadAttention", "past_sequence_length, cache_indirection", "tensors are never written in place",
        "past and present as two tensors"),
    Gap("GroupQueryAttention", "a quantised or sliding-window cache, query_seqlens, output_qk",
        "forms for GPUs and for debugging, which exporters leave off", "a whole cache in the query's dtype"),
    Gap("RotaryEmbedding", "is_packed_batching (com.microsoft)", "rows of a batch have one length", "one row each"),
    Gap("MatMulNBits", "weight_prepacked", "the order of the bytes is one device's own", "weight_prepacked 0"),
    Gap("SkipLayerNormalization", "mean or inv_std_var is used", "inference only", "export in inference mode"),
    Gap("LabelEncoder", "strings as keys or values", "tensors of strings are not supported", "encode strings before"),
    Gap("TreeEnsembleClassifier", "labels that are strings", "tensors of strings are not supported",
        "number the classes"),
    Gap("LinearClassifier", "labels that are strings", "tensors of strings are not supported", "number the classes"),
    Gap("TfIdfVectorizer", "a pool of strings", "tensors of strings are not supported", "number the tokens before"),
    Gap("ImageDecoder", "all", "decoding files is I/O with a library per format, not computation",
        "decode with the application's own image library", ("test_image_decoder_*",)),
    Gap("Attention", "an operator case of onnx in float16, as the ops that its function body names",
        "it expects, within a thousandth, what numpy rounds to float16 after every addition of a softmax",
        "nothing: ours is closer to the exact result", ("test_attention_4d_causal_fp16_expanded",)),
)


def gap_of_case(name: str) -> Gap | None:
    """The gap that keeps the operator case `name` of onnx from passing."""
    return next((gap for gap in GAPS if any(fnmatchcase(name, pattern) for pattern in gap.cases)), None)


def gaps_of(op: str) -> tuple[Gap, ...]:
    """The refused cases of an ONNX op."""
    return tuple(gap for gap in GAPS if gap.op == op)
