"""Models whose loops and branches change shapes: what decoders, trackers and hand-written searches look like."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper

from tests.build.tiny_models import constant, info, node, weights

Feeds = dict[str, np.ndarray]


def graph(name: str, nodes: list[onnx.NodeProto], inputs: list[onnx.ValueInfoProto],
          outputs: list[onnx.ValueInfoProto], *constants: onnx.TensorProto) -> onnx.GraphProto:
    return helper.make_graph(nodes, name, inputs, outputs, list(constants))


def model(nodes: list[onnx.NodeProto], inputs: list[onnx.ValueInfoProto], outputs: list[str],
          *constants: onnx.TensorProto, opset: int = 17, kinds: dict[str, int] | None = None) -> onnx.ModelProto:
    outs = [helper.make_tensor_value_info(name, (kinds or {}).get(name, T.FLOAT), None) for name in outputs]
    return helper.make_model(helper.make_graph(nodes, "m", inputs, outs, list(constants)), ir_version=8,
                             opset_imports=[helper.make_opsetid("", opset)])


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def number(value: int | bool) -> np.ndarray:
    return np.array(value, np.bool_ if isinstance(value, bool) else np.int64)


def decoder() -> tuple[onnx.ModelProto, list[Feeds]]:
    """Greedy decoding: caches of keys and values and their mask grow by one in each step, so do the tokens.

    It stops at token 0 or after `steps`. Mask and caches start a constant apart.
    """
    body = graph("step", [
        node("Gather", ["table", "token"], ["e"], axis=0),                       # [1, 1, 8]
        node("MatMul", ["e", "wk"], ["k"]), node("MatMul", ["e", "wv"], ["v"]), node("MatMul", ["e", "wq"], ["q"]),
        node("Concat", ["keys", "k"], ["keys1"], axis=1), node("Concat", ["values", "v"], ["values1"], axis=1),
        node("Concat", ["mask", "zero1"], ["mask1"], axis=2),
        node("Transpose", ["keys1"], ["kt"], perm=[0, 2, 1]), node("MatMul", ["q", "kt"], ["s"]),
        node("Add", ["s", "mask"], ["sm"]), node("Softmax", ["sm"], ["p"], axis=-1),
        node("MatMul", ["p", "values1"], ["o"]), node("MatMul", ["o", "head"], ["logits"]),
        node("ArgMax", ["logits"], ["token1"], axis=2, keepdims=0),              # [1, 1]
        node("Concat", ["text", "token1"], ["text1"], axis=1),
        node("Squeeze", ["token1"], ["t"]), node("Cast", ["t"], ["on"], to=T.BOOL)],
        [info("i", [], T.INT64), info("go", [], T.BOOL), info("token", [1, 1], T.INT64), info("keys", [1, "a", 8]),
         info("values", [1, "b", 8]), info("mask", [1, 1, "c"]), info("text", [1, "d"], T.INT64)],
        [info("on", [], T.BOOL), info("token1", [1, 1], T.INT64), info("keys1", [1, "a1", 8]),
         info("values1", [1, "b1", 8]), info("mask1", [1, 1, "c1"]), info("text1", [1, "d1"], T.INT64),
         info("logits", [1, 1, 12])])
    m = model([node("Loop", ["steps", "", "token", "none", "none", "mask", "text"],
                    ["last", "keys", "values", "masks", "tokens", "logits"], body=body)],
              [info("steps", [], T.INT64), info("token", [1, 1], T.INT64), info("text", [1, "past"], T.INT64)],
              ["keys", "tokens", "logits"], weights("table", 12, 8), weights("wk", 8, 8), weights("wv", 8, 8),
              weights("wq", 8, 8), weights("head", 8, 12), constant("none", np.zeros((1, 0, 8), np.float32)),
              constant("mask", np.zeros((1, 1, 1), np.float32)), constant("zero1", np.zeros((1, 1, 1), np.float32)),
              kinds={"tokens": T.INT64})
    return m, [{"steps": number(n), "token": np.array([[t]], np.int64), "text": np.ones((1, p), np.int64)}
               for n, t, p in ((0, 1, 3), (1, 2, 1), (9, 3, 2), (40, 5, 1), (-3, 1, 2))]


def shrinking() -> tuple[onnx.ModelProto, list[Feeds]]:
    """Takes the first row off until the rest's sum is small or nothing is left, which the condition alone says."""
    body = graph("b", [
        node("Slice", ["h", "one", "end", "axis"], ["h1"]), node("ReduceSum", ["h1"], ["s"], keepdims=0),
        node("Shape", ["h1"], ["shape"]), node("Gather", ["shape", "zero"], ["left"]),
        node("Greater", ["left", "zero"], ["some"]), node("Less", ["limit", "s"], ["big"]),
        node("And", ["some", "big"], ["on"]), node("Identity", ["left"], ["row"])],
        [info("i", [], T.INT64), info("go", [], T.BOOL), info("h", ["r", 3])],
        [info("on", [], T.BOOL), info("h1", ["r1", 3]), info("row", [], T.INT64)])
    m = model([node("Loop", ["", "start", "x"], ["y", "rows"], body=body)],
              [info("x", ["n", 3]), info("start", [], T.BOOL), info("limit", [])], ["y", "rows"],
              constant("one", np.array([1], np.int64)), constant("end", np.array([1 << 40], np.int64)),
              constant("axis", np.array([0], np.int64)), constant("zero", number(0)), kinds={"rows": T.INT64})
    return m, [{"x": abs(floats(n, 3)), "start": number(s), "limit": np.array(limit, np.float32)}
               for n, s, limit in ((1, True, 0), (5, True, 0), (7, True, 4), (7, False, 0), (16, True, -1))]


def doubling() -> tuple[onnx.ModelProto, list[Feeds]]:
    """A size that grows with itself, and one that follows another carried value's; results that swap places."""
    body = graph("b", [
        node("Concat", ["a", "a"], ["a1"], axis=0), node("Identity", ["b"], ["c1"]), node("Neg", ["a"], ["b1"]),
        node("Identity", ["go"], ["on"])],
        [info("i", [], T.INT64), info("go", [], T.BOOL), info("a", None), info("b", None), info("c", None)],
        [info("on", [], T.BOOL), info("a1", None), info("b1", None), info("c1", None)])
    m = model([node("Loop", ["m", "", "x", "x", "x"], ["a", "b", "c"], body=body)],
              [info("m", [], T.INT64), info("x", ["n"])], ["a", "b", "c"])
    return m, [{"m": number(n), "x": floats(k)} for n, k in ((0, 2), (1, 3), (5, 1), (8, 3), (3, 7))]


def branches() -> tuple[onnx.ModelProto, list[Feeds]]:
    """Branches of different sizes, one known from data only, and what reads them behind; nested, too."""
    cut = graph("cut", [node("Slice", ["x", "zero1", "k", "axis"], ["c"])], [], [info("c", None)])
    pair = graph("pair", [node("Concat", ["x", "x"], ["p"], axis=0)], [], [info("p", None)])
    one_more = graph("more", [node("Concat", ["y", "y0"], ["q"], axis=0), node("Concat", ["z", "y0"], ["qz"], axis=0)],
                     [], [info("q", None), info("qz", None)])
    same = graph("same", [node("Identity", ["y"], ["r"]), node("Identity", ["z"], ["rz"])], [],
                 [info("r", None), info("rz", None)])
    m = model([node("If", ["first"], ["y"], then_branch=cut, else_branch=pair), node("Relu", ["y"], ["z"]),
               node("If", ["second"], ["u", "v"], then_branch=one_more, else_branch=same),
               node("Add", ["u", "v"], ["out"]), node("ReduceSum", ["out"], ["sum"], keepdims=0)],
              [info("x", ["n", 3]), info("k", [1], T.INT64), info("first", [], T.BOOL), info("second", [], T.BOOL)],
              ["out", "sum"], constant("zero1", np.array([0], np.int64)), constant("axis", np.array([0], np.int64)),
              constant("y0", np.ones((1, 3), np.float32)))
    return m, [{"x": floats(5, 3), "k": np.array([k], np.int64), "first": number(a), "second": number(b)}
               for k in (0, 3, 5) for a in (True, False) for b in (True, False)]


def nested() -> tuple[onnx.ModelProto, list[Feeds]]:
    """An If in a Loop in a Scan: the inner loop's state grows in some of its passes and starts anew for every row."""
    grow = graph("grow", [node("Concat", ["h", "row2"], ["g"], axis=0)], [], [info("g", None)])
    keep = graph("keep", [node("Mul", ["h", "half"], ["l"])], [], [info("l", None)])
    inner = graph("inner", [
        node("Mod", ["j", "two"], ["odd"]), node("Cast", ["odd"], ["is_odd"], to=T.BOOL),
        node("If", ["is_odd"], ["h1"], then_branch=grow, else_branch=keep), node("Identity", ["on"], ["on1"])],
        [info("j", [], T.INT64), info("on", [], T.BOOL), info("h", None)], [info("on1", [], T.BOOL), info("h1", None)])
    outer = graph("outer", [
        node("Unsqueeze", ["row", "axis"], ["row2"]), node("Loop", ["m", "", "row2"], ["deep"], body=inner),
        node("ReduceSum", ["deep", "axis"], ["sum"], keepdims=0), node("Add", ["state", "sum"], ["state1"]),
        node("Mul", ["sum", "state"], ["made"])],
        [info("state", [4]), info("row", [4])], [info("state1", [4]), info("made", [4])])
    m = model([node("Scan", ["init", "xs"], ["last", "ys"], body=outer, num_scan_inputs=1)],
              [info("m", [], T.INT64), info("init", [4]), info("xs", ["t", 4])], ["last", "ys"],
              constant("two", number(2)), constant("half", np.array(0.5, np.float32)),
              constant("axis", np.array([0], np.int64)))
    return m, [{"m": number(n), "init": floats(4), "xs": floats(t, 4)} for n, t in ((0, 1), (3, 2), (6, 5), (4, 9))]


def positions(known: bool) -> tuple[onnx.ModelProto, list[Feeds]]:
    """Sizes computed from the number of the pass fit carried ones that grow by one; rows and slices at that number.

    Where the trip count is not known, a slice might end before its position, which is checked while running.
    """
    body = graph("b", [
        node("Add", ["i", "one0"], ["next"]), node("Unsqueeze", ["next", "axis"], ["end"]),
        node("Slice", ["xs", "zero1", "end", "axis"], ["seen"]), node("Concat", ["h", "new"], ["h1"], axis=0),
        node("Mul", ["seen", "h1"], ["prod"]), node("ReduceSum", ["prod"], ["row"], keepdims=0),
        node("Gather", ["xs", "i"], ["at"], axis=0), node("Less", ["row", "limit"], ["on"])],
        [info("i", [], T.INT64), info("go", [], T.BOOL), info("h", ["k", 2])],
        [info("on", [], T.BOOL), info("h1", None), info("row", None), info("at", None)])
    m = model([node("Loop", ["m", "start", "none"], ["h", "rows", "ats"], body=body)],
              [info("start", [], T.BOOL), info("limit", []), info("xs", [6, 2]),
               *([] if known else [info("m", [], T.INT64)])], ["h", "rows", "ats"],
              constant("none", np.zeros((0, 2), np.float32)), constant("new", floats(1, 2)),
              constant("one0", number(1)), constant("axis", np.array([0], np.int64)),
              constant("zero1", np.array([0], np.int64)),
              *([constant("m", number(6))] if known else []))
    cases = ((False, 0), (True, 99), (True, -99), (True, 0), (True, 1))
    return m, [{"start": number(s), "limit": np.array(limit, np.float32), "xs": floats(6, 2, seed=n)}
               | ({} if known else {"m": number(6 - n % 2)}) for n, (s, limit) in enumerate(cases)]


def counter() -> tuple[onnx.ModelProto, list[Feeds]]:
    """A loop that counts by itself, as those written for other frameworks do: slices, rows and sizes at its counter."""
    body = graph("b", [
        node("Unsqueeze", ["c", "axis"], ["begin"]), node("Add", ["c", "one0"], ["c1"]),
        node("Unsqueeze", ["c1", "axis"], ["end"]), node("Slice", ["x", "begin", "end", "axis"], ["r"]),
        node("Concat", ["h", "r"], ["h1"], axis=0), node("Less", ["c1", "limit"], ["on"]),
        node("Squeeze", ["r", "axis"], ["row"])],
        [info("i", [], T.INT64), info("go", [], T.BOOL), info("c", [], T.INT64), info("h", None)],
        [info("on", [], T.BOOL), info("c1", [], T.INT64), info("h1", None), info("row", None)])
    m = model([node("Loop", ["", "", "first", "none"], ["c", "h", "rows"], body=body)],
              [info("x", ["n", 3]), info("limit", [], T.INT64)], ["c", "h", "rows"], constant("one0", number(1)),
              constant("first", number(2)), constant("axis", np.array([0], np.int64)),
              constant("none", np.zeros((0, 3), np.float32)), kinds={"c": T.INT64})
    return m, [{"x": floats(9, 3), "limit": number(n)} for n in (0, 4, 9)]


def unbounded() -> tuple[onnx.ModelProto, list[Feeds]]:
    """No trip count: as many passes, and rows, as the data asks for."""
    body = graph("b", [
        node("Add", ["h", "step"], ["h1"]), node("Less", ["h1", "limit"], ["less"]),
        node("ReduceMax", ["h1"], ["top"], keepdims=0), node("Less", ["top", "limit"], ["on"]),
        node("Concat", ["h1", "h"], ["row"], axis=0)],
        [info("i", [], T.INT64), info("go", [], T.BOOL), info("h", [3])],
        [info("on", [], T.BOOL), info("h1", [3]), info("row", [6])])
    m = model([node("Loop", ["", "", "x"], ["y", "rows"], body=body)],
              [info("x", [3]), info("step", []), info("limit", [])], ["y", "rows"])
    return m, [{"x": floats(3), "step": np.array(s, np.float32), "limit": np.array(limit, np.float32)}
               for s, limit in ((1, 4), (0.125, 9), (0.01, 30))]


def scan(axes_in: tuple[int, int], axes_out: tuple[int, int], back_in: tuple[int, int], back_out: tuple[int, int]
         ) -> tuple[onnx.ModelProto, list[Feeds]]:
    """Two scan inputs and outputs, each along its own axis and direction."""
    body = graph("b", [
        node("MatMul", ["a", "w"], ["aw"]), node("Add", ["aw", "b"], ["c"]), node("Add", ["s", "c"], ["s1"]),
        node("Transpose", ["c"], ["ct"], perm=[1, 0]), node("Relu", ["s1"], ["r"])],
        [info("s", [2, 3]), info("a", [2, 3]), info("b", [2, 3])],
        [info("s1", [2, 3]), info("r", [2, 3]), info("ct", [3, 2])])
    shapes = [[2, 3], [2, 3]]
    for shape, axis in zip(shapes, axes_in, strict=True):
        shape.insert(axis % 3, -1)
    m = model([node("Scan", ["init", "xa", "xb"], ["last", "ra", "rb"], body=body, num_scan_inputs=2,
                    scan_input_axes=list(axes_in), scan_output_axes=list(axes_out),
                    scan_input_directions=list(back_in), scan_output_directions=list(back_out))],
              [info("init", [2, 3]), *(info(name, ["t" if d < 0 else d for d in shape])
                                       for name, shape in zip(("xa", "xb"), shapes, strict=True))],
              ["last", "ra", "rb"], weights("w", 3, 3))
    return m, [{"init": floats(2, 3), "xa": floats(*(t if d < 0 else d for d in shapes[0]), seed=1),
                "xb": floats(*(t if d < 0 else d for d in shapes[1]), seed=2)} for t in (1, 4, 7)]


def unread_rows() -> tuple[onnx.ModelProto, list[Feeds]]:
    """Nobody reads what is gathered, in full or in part; the number of passes is a size of an input."""
    body = graph("b", [node("Add", ["s", "a"], ["s1"]), node("Relu", ["s1"], ["r"])], [info("s", [3]), info("a", [3])],
                 [info("s1", [3]), info("r", [3])])
    inner = graph("c", [node("Add", ["h", "init"], ["h1"]), node("Neg", ["h1"], ["n"]), node("Abs", ["h1"], ["p"]),
                        node("Identity", ["go"], ["on"])],
                  [info("i", [], T.INT64), info("go", [], T.BOOL), info("h", [3])],
                  [info("on", [], T.BOOL), info("h1", [3]), info("n", [3]), info("p", [3])])
    m = model([node("Scan", ["init", "xs"], ["last", "rows"], body=body, num_scan_inputs=1),
               node("Shape", ["xs"], ["shape"]), node("Gather", ["shape", "zero"], ["t"]),
               node("Loop", ["t", "", "last"], ["e1", "ns", "ps"], body=inner),
               node("Loop", ["t", "", "last"], ["end", "n2", "p2"], body=inner)],
              [info("init", [3]), info("xs", ["t", 3])], ["last", "ps", "end"], constant("zero", number(0)))
    return m, [{"init": floats(3), "xs": floats(t, 3)} for t in (1, 4, 7)]


def scan_of_batches(lens: bool) -> tuple[onnx.ModelProto, list[Feeds]]:
    """Scan of opset 8: a batch, which may have sequences of different lengths."""
    body = graph("b", [node("Add", ["s", "a"], ["s1"]), node("Mul", ["s1", "a"], ["r"])],
                 [info("s", [3]), info("a", [3])], [info("s1", [3]), info("r", [3])])
    m = model([node("Scan", ["lens" if lens else "", "init", "xs"], ["last", "rows"], body=body, num_scan_inputs=1)],
              [*([info("lens", ["b"], T.INT64)] if lens else []), info("init", ["b", 3]), info("xs", ["b", "t", 3])],
              ["last", "rows"], opset=8)
    return m, [{"init": floats(b, 3), "xs": floats(b, t, 3)}
               | ({"lens": np.random.default_rng(b).integers(1, t + 1, b)} if lens else {})
               for b, t in ((1, 1), (2, 4), (3, 5))]


MODELS: dict[str, Callable[[], tuple[onnx.ModelProto, list[Feeds]]]] = {
    "decoder": decoder, "shrinking": shrinking, "doubling": doubling, "branches": branches, "nested": nested,
    "positions": lambda: positions(True), "positions_checked": lambda: positions(False), "unbounded": unbounded,
    "unread_rows": unread_rows, "counter": counter,
    "scan_plain": lambda: scan((0, 0), (0, 0), (0, 0), (0, 0)),
    "scan_back": lambda: scan((0, 0), (0, 0), (1, 0), (0, 1)),
    "scan_axes": lambda: scan((1, -1), (2, 1), (0, 1), (1, 0)),
    "scan_8": lambda: scan_of_batches(False), "scan_8_lengths": lambda: scan_of_batches(True),
}
