"""Small ONNX models that walk the awkward paths of lowering: what is returned, aliased, reused, branched, looped."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper

F = T.FLOAT
MODELS: dict[str, Callable[[], onnx.ModelProto]] = {}


def info(name: str, shape: list[int | str | None], dtype: int = F) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def constant(name: str, array: np.ndarray) -> onnx.TensorProto:
    return numpy_helper.from_array(array, name)


def weights(name: str, *shape: int) -> onnx.TensorProto:
    rng = np.random.default_rng(len(name) + sum(shape))
    return constant(name, (rng.standard_normal(shape) / max(1, np.prod(shape[1:])) ** 0.5).astype(np.float32))


def model(nodes: list[onnx.NodeProto], inputs: list[onnx.ValueInfoProto], outputs: list[onnx.ValueInfoProto],
          constants: list[onnx.TensorProto] | None = None, opset: int = 17) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "tiny", inputs, outputs, constants or [])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.checker.check_model(made)
    return made


def case(build: Callable[[], onnx.ModelProto]) -> Callable[[], onnx.ModelProto]:
    MODELS[build.__name__] = build
    return build


node = helper.make_node


@case
def output_is_an_input() -> onnx.ModelProto:
    return model([node("Identity", ["x"], ["same"]), node("Relu", ["x"], ["y"])], [info("x", [2, 3])],
                 [info("same", [2, 3]), info("y", [2, 3])])


@case
def output_is_a_constant() -> onnx.ModelProto:
    return model([node("Relu", ["x"], ["y"]), node("Add", ["c", "c"], ["k"])], [info("x", [2])],
                 [info("y", [2]), info("k", [3])], [constant("c", np.arange(3, dtype=np.float32))])


@case
def two_outputs_of_one_value() -> onnx.ModelProto:
    return model([node("Relu", ["x"], ["y"]), node("Identity", ["y"], ["z"])], [info("x", [5])],
                 [info("y", [5]), info("z", [5])])


@case
def output_is_read_again() -> onnx.ModelProto:
    return model([node("Exp", ["x"], ["y"]), node("MatMul", ["y", "w"], ["z"])], [info("x", [4, 8])],
                 [info("y", [4, 8]), info("z", [4, 3])], [weights("w", 8, 3)])


@case
def output_is_a_view_of_an_inner_value() -> onnx.ModelProto:
    return model([node("MatMul", ["x", "w"], ["m"]), node("Reshape", ["m", "s"], ["y"]), node("Relu", ["m"], ["z"])],
                 [info("x", [4, 8])], [info("y", [2, 6]), info("z", [4, 3])],
                 [weights("w", 8, 3), constant("s", np.array([2, -1], np.int64))])


@case
def view_of_an_input() -> onnx.ModelProto:
    return model([node("Reshape", ["x", "s"], ["r"]), node("Softmax", ["r"], ["y"], axis=-1)], [info("x", [2, 3, 4])],
                 [info("y", [6, 4])], [constant("s", np.array([6, 4], np.int64))])


@case
def in_place_chain_with_a_late_reader() -> onnx.ModelProto:
    """The first product may not be overwritten by the Exp, because the Sub reads it later."""
    return model([node("MatMul", ["x", "w"], ["a"]), node("Exp", ["a"], ["e"]), node("Softmax", ["e"], ["s"], axis=-1),
                  node("Sub", ["s", "a"], ["y"])], [info("x", [4, 8])], [info("y", [4, 8])], [weights("w", 8, 8)])


@case
def in_place_after_a_gather() -> onnx.ModelProto:
    return model([node("Gather", ["x", "i"], ["t"], axis=0), node("Exp", ["t"], ["e"]),
                  node("Softmax", ["e"], ["y"], axis=-1)], [info("x", [4, 6])], [info("y", [3, 6])],
                 [constant("i", np.array([2, 0, -1], np.int64))])


@case
def in_place_and_a_view_of_the_same_memory() -> onnx.ModelProto:
    return model([node("Softmax", ["x"], ["a"], axis=-1), node("Reshape", ["a", "s"], ["v"]),
                  node("Add", ["a", "a"], ["d"]), node("Softmax", ["d"], ["e"], axis=0),
                  node("Softmax", ["v"], ["f"], axis=-1)], [info("x", [4, 6])], [info("e", [4, 6]), info("f", [6, 4])],
                 [constant("s", np.array([6, 4], np.int64))])


@case
def broadcast_both_ways() -> onnx.ModelProto:
    return model([node("Add", ["a", "b"], ["s"]), node("Mul", ["s", "c"], ["y"])],
                 [info("a", [3, 1, 5]), info("b", [4, 1])], [info("y", [2, 3, 4, 5])], [weights("c", 2, 1, 1, 5)])


@case
def convolution_block_with_residual() -> onnx.ModelProto:
    return model([node("Conv", ["x", "w1", "b1"], ["c1"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
                  node("Relu", ["c1"], ["r1"]),
                  node("Conv", ["r1", "w2"], ["c2"], kernel_shape=[1, 1]), node("Add", ["c2", "r1"], ["s"]),
                  node("Relu", ["s"], ["r2"]), node("MaxPool", ["r2"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
                  node("GlobalAveragePool", ["p"], ["g"]), node("Flatten", ["g"], ["f"]),
                  node("Gemm", ["f", "wf", "bf"], ["y"], transB=1)],
                 [info("x", ["n", 5, 9, 7])], [info("y", ["n", 4])],
                 [weights("w1", 13, 5, 3, 3), weights("b1", 13), weights("w2", 13, 13, 1, 1), weights("wf", 4, 13),
                  weights("bf", 4)])


@case
def blocked_value_read_plain_and_blocked() -> onnx.ModelProto:
    return model([node("Conv", ["x", "w1"], ["c1"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
                  node("Transpose", ["c1"], ["t"], perm=[0, 2, 3, 1]), node("Conv", ["c1", "w2"], ["y"]),
                  node("ReduceMean", ["t"], ["m"], axes=[1, 2], keepdims=0)],
                 [info("x", [1, 8, 6, 6])], [info("y", [1, 16, 6, 6]), info("m", [1, 16])],
                 [weights("w1", 16, 8, 3, 3), weights("w2", 16, 16, 1, 1)])


@case
def bn_behind_a_branch_stays() -> onnx.ModelProto:
    """The convolution has a second reader, so the BN may not be folded into it."""
    return model([node("Conv", ["x", "w"], ["c"]),
                  node("BatchNormalization", ["c", "s", "b", "m", "v"], ["n"]), node("Add", ["c", "n"], ["y"])],
                 [info("x", [2, 8, 4, 4])], [info("y", [2, 8, 4, 4])],
                 [weights("w", 8, 8, 1, 1), weights("s", 8), weights("b", 8), weights("m", 8),
                  constant("v", np.linspace(0.5, 2, 8, dtype=np.float32))])


@case
def integers_and_comparisons() -> onnx.ModelProto:
    return model([node("Cast", ["i"], ["f"], to=F), node("Less", ["f", "x"], ["l"]), node("Not", ["l"], ["n"]),
                  node("Where", ["n", "x", "f"], ["w"]), node("Mul", ["i", "i"], ["ii"]),
                  node("Cast", ["l"], ["li"], to=T.INT64), node("Add", ["ii", "li"], ["z"])],
                 [info("i", [3, 4], T.INT64), info("x", [3, 4])],
                 [info("w", [3, 4]), info("z", [3, 4], T.INT64), info("n", [3, 4], T.BOOL)])


@case
def slices_that_are_views_and_slices_that_are_not() -> onnx.ModelProto:
    def ints(name: str, *values: int) -> onnx.TensorProto:
        return constant(name, np.array(values, np.int64))
    return model([node("Relu", ["x"], ["r"]), node("Slice", ["r", "s1", "e1", "a0"], ["front"]),
                  node("Slice", ["r", "s1", "e1", "a1"], ["inner"]),
                  node("Slice", ["r", "last", "first", "a1", "back"], ["reversed"]),
                  node("Softmax", ["front"], ["p"], axis=-1), node("Softmax", ["inner"], ["q"], axis=-1),
                  node("Concat", ["reversed", "r"], ["k"], axis=1)],
                 [info("x", [4, 6])], [info("p", [2, 6]), info("q", [4, 2]), info("k", [4, 12])],
                 [ints("s1", 1), ints("e1", 3), ints("a0", 0), ints("a1", 1), ints("last", -1), ints("first", -100),
                  ints("back", -1)])


@case
def parts_written_where_they_belong() -> onnx.ModelProto:
    """p = [a, b], q = [a, b, c], r = [pool(q), d]: joins without a copy, of parts that others read as well."""
    convs = [node("Conv", ["x", w], [name], pads=[1, 1, 1, 1]) for name, w in (
        ("a", "u"), ("b", "v"), ("c", "third"), ("d", "ds"))]
    return model([*convs, node("MaxPool", ["b"], ["bp"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
                  node("Concat", ["a", "b"], ["p"], axis=1), node("Concat", ["a", "b", "c"], ["q"], axis=1),
                  node("MaxPool", ["q"], ["qp"], kernel_shape=[3, 3], pads=[1] * 4),
                  node("Concat", ["qp", "d"], ["r"], axis=1), node("Conv", ["p", "w"], ["cp"]),
                  node("Conv", ["q", "ww"], ["cq"]), node("Conv", ["r", "www"], ["cr"]),
                  node("Add", ["cp", "cq"], ["s"]), node("Mul", ["s", "cr"], ["y"]), node("Sigmoid", ["bp"], ["z"])],
                 [info("x", [1, 8, 6, 7])], [info("y", [1, 9, 6, 7]), info("z", [1, 8, 6, 7])],
                 [weights("u", 16, 8, 3, 3), weights("v", 8, 8, 3, 3), weights("third", 16, 8, 3, 3),
                  weights("ds", 13, 8, 3, 3), weights("w", 9, 24, 1, 1), weights("ww", 9, 40, 1, 1),
                  weights("www", 9, 53, 1, 1)])


@case
def parts_that_have_to_be_copied() -> onnx.ModelProto:
    """Twice the same, an input, a graph output, channels that share a block, an axis that is not the outermost."""
    nodes = [*(node("Conv", ["x", w], [name], pads=[1, 1, 1, 1]) for name, w in (
                 ("a", "u"), ("b", "vv"), ("c", "five"), ("d", "sixteen"))),
             *(node("Relu", [n], [f"r{n}"]) for n in "abcd"),
             *(node("Concat", parts, [name], axis=axis) for name, parts, axis in (
                 ("twice", ["ra", "ra"], 1), ("given", ["ra", "x"], 1), ("odd", ["rc", "ra"], 1),
                 ("shown", ["ra", "rb"], 2), ("rows", ["rd", "d"], 2))),
             *(node("Conv", [name, w], [f"y_{name}"]) for name, w in (
                 ("twice", "w16"), ("given", "w16"), ("odd", "w13"), ("rows", "w16"), ("shown", "w8")))]
    return model(nodes, [info("x", [1, 8, 6, 7])],
                 [info("rb", [1, 8, 6, 7]), *(info(f"y_{n}", [1, 8, r, 7]) for n, r in (
                     ("twice", 6), ("given", 6), ("odd", 6), ("rows", 12), ("shown", 12)))],
                 [weights("u", 8, 8, 3, 3), weights("vv", 8, 8, 3, 3), weights("five", 5, 8, 3, 3),
                  weights("sixteen", 16, 8, 3, 3), weights("w8", 8, 8, 1, 1), weights("w13", 8, 13, 1, 1),
                  weights("w16", 8, 16, 1, 1)])


@case
def parts_of_rows_that_are_views() -> onnx.ModelProto:
    """Heads of a detector: products brought into one column, of a number of rows that the input tells."""
    shape = constant("shape", np.array([1, -1, 4], np.int64))
    return model([node("MatMul", ["x", "w"], ["m"]), node("Reshape", ["m", "shape"], ["a"]),
                  node("MatMul", ["x", "v"], ["n"]), node("Reshape", ["n", "shape"], ["b"]),
                  node("Concat", ["a", "b"], ["c"], axis=1), node("Softmax", ["c"], ["y"], axis=2),
                  node("ReduceMax", ["n"], ["z"], keepdims=0)],
                 [info("x", ["rows", 8])], [info("y", [1, None, 4]), info("z", [])],
                 [shape, weights("w", 8, 12), weights("v", 8, 8)])


@case
def slices_of_channels_in_blocks() -> onnx.ModelProto:
    """Of one convolution: two that begin with a block, the last not full, and one that does not; one read twice."""
    cuts = [constant(name, np.array([at], np.int64)) for name, at in
            (("zero", 0), ("sixteen", 16), ("four", 4), ("twelve", 12), ("end", 29), ("axis", 1))]
    convs = [node("Conv", [name, w], [f"c{i}"], pads=[1, 1, 1, 1])
             for i, (name, w) in enumerate((("a", "u"), ("b", "v"), ("c", "t")))]
    return model([node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1]),
                  node("Slice", ["y", "zero", "sixteen", "axis"], ["a"]),
                  node("Slice", ["y", "sixteen", "end", "axis"], ["b"]),
                  node("Slice", ["y", "four", "twelve", "axis"], ["c"]), *convs, node("Sigmoid", ["b"], ["s"]),
                  node("Add", ["c0", "c1"], ["p"]), node("Add", ["p", "c2"], ["q"]), node("Conv", ["s", "v"], ["r"])],
                 [info("x", [1, 8, 6, 7])], [info("q", [1, 24, 6, 7]), info("r", [1, 24, 4, 5])],
                 [*cuts, weights("w", 29, 8, 3, 3), weights("u", 24, 16, 3, 3), weights("v", 24, 13, 3, 3),
                  weights("t", 24, 8, 3, 3)])


@case
def output_is_a_view_of_a_slice_that_is_a_view() -> onnx.ModelProto:
    """The slice moves no byte, so nothing would write the output's memory if the slice were placed there."""
    return model([node("Split", ["x", "parts"], ["a", "b"], axis=0), node("Flatten", ["b"], ["y"], axis=2)],
                 [info("x", [2, 1, 6, 5])], [info("y", [1, 30])], [constant("parts", np.array([1, 1], np.int64))])


@case
def sizes_as_data() -> onnx.ModelProto:
    """Dynamic sizes that are returned and calculated with, not only used as shapes."""
    return model([node("Shape", ["x"], ["sh"]), node("Size", ["x"], ["size"]), node("Cast", ["size"], ["f"], to=F),
                  node("Div", ["x", "f"], ["y"]), node("Shape", ["x"], ["tail"], start=-2, end=5)],
                 [info("x", ["n", 3, "w"])], [info("sh", [3], T.INT64), info("y", ["n", 3, "w"]),
                                              info("tail", [2], T.INT64)])


@case
def range_of_a_size() -> onnx.ModelProto:
    """The decomposed Range needs no number of elements: who computed it is dead by then."""
    return model([node("Shape", ["x"], ["sh"]), node("Gather", ["sh", "zero"], ["n"], axis=0),
                  node("Range", ["zero", "n", "one"], ["r"]), node("Gather", ["x", "r"], ["y"], axis=0)],
                 [info("x", ["n", 3])], [info("r", ["n"], T.INT64), info("y", ["n", 3]), info("sh", [2], T.INT64)],
                 [constant("zero", np.array(0, np.int64)), constant("one", np.array(1, np.int64))])


@case
def pointwise_convolution_of_one_dimension() -> onnx.ModelProto:
    return model([node("Conv", ["x", "w", "b"], ["c"]), node("Relu", ["c"], ["y"])], [info("x", [2, 5, 11])],
                 [info("y", [2, 9, 11])], [weights("w", 9, 5, 1), weights("b", 9)])


@case
def pooling_windows_larger_than_the_image() -> onnx.ModelProto:
    """With ceil_mode a single partial window counts."""
    pool = {"kernel_shape": [3, 2], "strides": [2, 2], "ceil_mode": 1}
    return model([node("MaxPool", ["x"], ["m"], **pool), node("AveragePool", ["x"], ["a"], **pool)],
                 [info("x", [1, 9, 2, 1])], [info("m", [1, 9, 1, 1]), info("a", [1, 9, 1, 1])])


@case
def roots_of_integers() -> onnx.ModelProto:
    return model([node("ReduceL2", ["i"], ["y"], axes=[1]), node("ReduceL1", ["i"], ["z"], axes=[0], keepdims=0)],
                 [info("i", [3, 4], T.INT32)], [info("y", [3, 1], T.INT32), info("z", [4], T.INT32)])


@case
def rounding_of_halves() -> onnx.ModelProto:
    """Sums of halves may be kept in float registers, so adding and subtracting a large number rounds nothing."""
    nodes = [node(op, ["s"], [op.lower()]) for op in ("Floor", "Ceil", "Round")]
    return model([node("Mul", ["x", "c"], ["s"]), *nodes, node("Mod", ["s", "c"], ["mod"], fmod=1)],
                 [info("x", [3, 11], T.FLOAT16)],
                 [info(n, [3, 11], T.FLOAT16) for n in ("floor", "ceil", "round", "mod")],
                 [constant("c", np.array(2.5, np.float16))])


@case
def convolutions_of_halves() -> onnx.ModelProto:
    half = {n: numpy_helper.to_array(weights(n, *s)).astype(np.float16)
            for n, s in (("w", (8, 3, 3, 3)), ("b", (8,)), ("f", (8, 5)))}
    return model([node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]), node("Relu", ["c"], ["r"]),
                  node("GlobalAveragePool", ["r"], ["g"]), node("Flatten", ["g"], ["flat"]),
                  node("MatMul", ["flat", "f"], ["m"]), node("Softmax", ["m"], ["y"], axis=-1)],
                 [info("x", [2, 3, 6, 7], T.FLOAT16)],
                 [info("y", [2, 5], T.FLOAT16), info("r", [2, 8, 6, 7], T.FLOAT16)],
                 [constant(n, a) for n, a in half.items()])


@case
def extremes_of_bytes() -> onnx.ModelProto:
    return model([node("ReduceMax", ["x"], ["y"], axes=[1]), node("ReduceMin", ["x"], ["z"], keepdims=0)],
                 [info("x", [3, 4], T.UINT8)], [info("y", [3, 1], T.UINT8), info("z", [], T.UINT8)])


@case
def extremes_of_nothing() -> onnx.ModelProto:
    return model([node("ReduceMax", ["e"], ["y"]), node("ReduceMin", ["z"], ["m"]),
                  node("ReduceMax", ["x"], ["r"], axes=[0])], [info("x", [0, 3])],
                 [info("y", [1], T.INT64), info("m", [1]), info("r", [1, 3])],
                 [constant("e", np.zeros(0, np.int64)), constant("z", np.zeros(0, np.float32))])


@case
def scalars_and_empty_tensors() -> onnx.ModelProto:
    return model([node("Add", ["a", "b"], ["s"]), node("Relu", ["e"], ["z"]), node("Concat", ["z", "x"], ["k"], axis=0),
                  node("ReduceSum", ["x"], ["t"], keepdims=0), node("Mul", ["t", "s"], ["y"])],
                 [info("a", []), info("b", []), info("e", [0, 3]), info("x", [2, 3])],
                 [info("y", []), info("k", [2, 3]), info("z", [0, 3])])


@case
def dynamic_rows() -> onnx.ModelProto:
    """Shape -> Gather -> Concat -> Reshape must fold away, the rows staying dynamic."""
    return model([node("Shape", ["x"], ["sh"]), node("Gather", ["sh", "zero"], ["n"], axis=0),
                  node("Unsqueeze", ["n", "ax"], ["n1"]), node("Concat", ["n1", "two", "minus"], ["target"], axis=0),
                  node("Reshape", ["x", "target"], ["r"]), node("Transpose", ["r"], ["t"], perm=[1, 0, 2]),
                  node("Softmax", ["t"], ["y"], axis=-1)],
                 [info("x", ["n", 6])], [info("y", [2, "n", 3])],
                 [constant("zero", np.array(0, np.int64)), constant("ax", np.array([0], np.int64)),
                  constant("two", np.array([2], np.int64)), constant("minus", np.array([-1], np.int64))])


def _if(cond: str, out: str, then: onnx.GraphProto, orelse: onnx.GraphProto) -> onnx.NodeProto:
    return node("If", [cond], [out], then_branch=then, else_branch=orelse)


@case
def branches_that_capture() -> onnx.ModelProto:
    """Both branches read outer values; one returns an outer value as it is."""
    then = helper.make_graph([node("MatMul", ["h", "w"], ["t"])], "then", [], [info("t", [4, 8])])
    orelse = helper.make_graph([node("Identity", ["h"], ["e"])], "else", [], [info("e", [4, 8])])
    return model([node("Exp", ["x"], ["h"]), node("ReduceSum", ["x"], ["s"], keepdims=0),
                  node("Greater", ["s", "zero"], ["c"]), _if("c", "r", then, orelse), node("Add", ["r", "h"], ["y"])],
                 [info("x", [4, 8])], [info("y", [4, 8])],
                 [weights("w", 8, 8), constant("zero", np.array(0, np.float32))])


@case
def branches_with_convolutions() -> onnx.ModelProto:
    """The captured value is blocked outside; each branch converts for itself."""
    then = helper.make_graph([node("Conv", ["h", "w2"], ["t"])], "then", [], [info("t", [1, 8, 5, 5])])
    orelse = helper.make_graph([node("Conv", ["h", "w3"], ["e"], pads=[1, 1, 1, 1])], "else", [],
                               [info("e", [1, 8, 5, 5])])
    return model([node("Conv", ["x", "w1"], ["h"]), node("ReduceMax", ["x"], ["s"], keepdims=0),
                  node("Greater", ["s", "two"], ["c"]), _if("c", "r", then, orelse), node("Add", ["r", "h"], ["y"])],
                 [info("x", [1, 8, 5, 5])], [info("y", [1, 8, 5, 5])],
                 [weights("w1", 8, 8, 1, 1), weights("w2", 8, 8, 1, 1), weights("w3", 8, 8, 3, 3),
                  constant("two", np.array(2.6, np.float32))])


@case
def loop_with_swap_scan_and_branch() -> onnx.ModelProto:
    """Carried values swap, rows are gathered, the body holds an If, and everything captures from outside."""
    then = helper.make_graph([node("Add", ["a", "outer"], ["t0"]), node("Relu", ["t0"], ["t"])], "then", [],
                             [info("t", [4, 8])])
    orelse = helper.make_graph([node("Mul", ["b", "outer"], ["e"])], "else", [], [info("e", [4, 8])])
    body = helper.make_graph(
        [node("Mod", ["i", "two"], ["parity"]), node("Equal", ["parity", "zero"], ["even"]),
         _if("even", "branch", then, orelse), node("MatMul", ["branch", "w"], ["mm"]), node("Tanh", ["mm"], ["a2"]),
         node("Identity", ["a"], ["b2"]), node("ReduceSum", ["a2"], ["s"], keepdims=0),
         node("Less", ["s", "limit"], ["go2"]), node("Add", ["a2", "b"], ["row"])],
        "body", [info("i", [], T.INT64), info("go", [], T.BOOL), info("a", [4, 8]), info("b", [4, 8])],
        [info("go2", [], T.BOOL), info("a2", [4, 8]), info("b2", [4, 8]), info("row", [4, 8])])
    return model([node("Mul", ["x", "x"], ["outer"]),
                  node("Loop", ["m", "true", "x", "y"], ["fa", "fb", "rows"], body=body),
                  node("Add", ["fa", "fb"], ["out"])],
                 [info("x", [4, 8]), info("y", [4, 8])], [info("out", [4, 8]), info("rows", [None, 4, 8])],
                 [constant("m", np.array(6, np.int64)), constant("true", np.array(True)),
                  constant("two", np.array(2, np.int64)), constant("zero", np.array(0, np.int64)), weights("w", 8, 8),
                  constant("limit", np.array(3.0, np.float32))])


@case
def loop_that_stops_early() -> onnx.ModelProto:
    """The number of passes depends on the data: the scan output's first size is known only after running."""
    body = helper.make_graph(
        [node("Add", ["v", "one"], ["v2"]), node("ReduceMax", ["v2"], ["top"], keepdims=0),
         node("Less", ["top", "five"], ["go2"]), node("Identity", ["v2"], ["row"])],
        "body", [info("i", [], T.INT64), info("go", [], T.BOOL), info("v", [3])],
        [info("go2", [], T.BOOL), info("v2", [3]), info("row", [3])])
    return model([node("Loop", ["m", "", "x"], ["last", "rows"], body=body), node("Exp", ["rows"], ["e"])],
                 [info("x", [3])], [info("last", [3]), info("e", [None, 3])],
                 [constant("m", np.array(20, np.int64)), constant("one", np.array(1, np.float32)),
                  constant("five", np.array(5, np.float32))])


@case
def loop_of_no_passes() -> onnx.ModelProto:
    body = helper.make_graph(
        [node("Identity", ["go"], ["go2"]), node("Exp", ["v"], ["v2"])],
        "body", [info("i", [], T.INT64), info("go", [], T.BOOL), info("v", [3])],
        [info("go2", [], T.BOOL), info("v2", [3])])
    return model([node("Loop", ["m", "false", "x"], ["y"], body=body)], [info("x", [3])], [info("y", [3])],
                 [constant("m", np.array(4, np.int64)), constant("false", np.array(False))])


@case
def rows_of_an_inner_loop_that_runs_longer_each_time() -> onnx.ModelProto:
    """The number of rows is known behind the inner loop only, and must be unknown again before its next run."""
    inner = helper.make_graph(
        [node("Add", ["x", "w"], ["row"]), node("Identity", ["gi"], ["gi2"]), node("Identity", ["w"], ["w2"])],
        "inner", [info("j", [], T.INT64), info("gi", [], T.BOOL), info("w", [])],
        [info("gi2", [], T.BOOL), info("w2", []), info("row", [5])])
    outer = helper.make_graph(
        [node("Identity", ["go"], ["go2"]), node("Loop", ["i", "", "v"], ["last", "rows"], body=inner),
         node("ReduceSum", ["rows"], ["s"], keepdims=0), node("Add", ["v", "s"], ["v2"])],
        "outer", [info("i", [], T.INT64), info("go", [], T.BOOL), info("v", [])],
        [info("go2", [], T.BOOL), info("v2", [])])
    return model([node("Loop", ["m", "", "a"], ["y"], body=outer)], [info("x", [5]), info("a", [])], [info("y", [])],
                 [constant("m", np.array(4, np.int64))])


@case
def loop_in_a_loop() -> onnx.ModelProto:
    inner = helper.make_graph(
        [node("Identity", ["gi"], ["gi2"]), node("Mul", ["w", "u"], ["w2"])],
        "inner", [info("j", [], T.INT64), info("gi", [], T.BOOL), info("w", [3])],
        [info("gi2", [], T.BOOL), info("w2", [3])])
    outer = helper.make_graph(
        [node("Identity", ["go"], ["go2"]), node("Sigmoid", ["v"], ["u"]),
         node("Loop", ["two", "", "v"], ["inner_out"], body=inner), node("Add", ["inner_out", "x"], ["v2"])],
        "outer", [info("i", [], T.INT64), info("go", [], T.BOOL), info("v", [3])],
        [info("go2", [], T.BOOL), info("v2", [3])])
    return model([node("Loop", ["m", "", "x"], ["y"], body=outer)], [info("x", [3])], [info("y", [3])],
                 [constant("m", np.array(3, np.int64)), constant("two", np.array(2, np.int64))])
