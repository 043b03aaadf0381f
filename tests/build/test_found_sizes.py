"""Tensors whose size data tells, and what models do with them: whole packages against ONNX Runtime.

Each model is compiled once and run on data that finds nothing, everything, one element, and some.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from meta_infer import build, load
from meta_infer.frontend.import_model import import_model
from meta_infer.ir.graph import Graph
from meta_infer.support.errors import MetaInferError

Arrays = dict[str, np.ndarray]
MOST = 40


def data(rng: np.random.Generator, number: int, share: float) -> Arrays:
    """Operands of MODELS: `share` of the `number` rows count."""
    def count(*shape: int) -> np.ndarray:
        return np.asarray(rng.random(shape) < share)

    x = rng.standard_normal((number, 3)).astype(np.float32)
    corners = rng.uniform(0, 1, (1, number, 2))
    return {"x": x, "y": rng.standard_normal((number, 3)).astype(np.float32), "c": count(number), "d": count(number),
            "m": (x * count(number, 3)).astype(np.float32),
            "k": rng.integers(0, max(int(number * share), 1), number),
            "boxes": np.concatenate([corners, corners + rng.uniform(0.1, 0.4, (1, number, 2))], -1).astype(np.float32),
            "scores": rng.uniform(0, 1, (1, 2, number)).astype(np.float32),
            "most": np.array([int(number * share)], np.int64)}


INPUTS = {"x": "float[N,3]", "y": "float[N,3]", "c": "bool[N]", "d": "bool[N]", "m": "float[N,3]", "k": "int64[N]",
          "boxes": "float[1,N,4]", "scores": "float[1,2,N]", "most": "int64[1]"}

MODELS: dict[str, str] = {
    "places of a mask": """
        p = NonZero(m)
        q = Transpose(p)
        o0 = GatherND(m, q)
        o1 = Shape(q)""",
    "the same mask for two tensors": """
        p = Compress<axis=0>(x, c)
        q = Compress<axis=0>(y, c)
        s = Add(p, q)
        o0 = Relu(s)
        w = Constant<value = float[3,2] {1, 2, 3, 4, 5, 6}>()
        h = MatMul(s, w)
        axes = Constant<value = int64[1] {0}>()
        o1 = ReduceSum<keepdims=0>(h, axes)""",
    "equal masks that are computed twice": """
        zero = Constant<value = float {0}>()
        a = Greater(x, zero)
        b = Greater(x, zero)
        p = Compress(x, a1)
        q = Compress(y, b1)
        o0 = Mul(p, q)
        minus = Constant<value = int64[1] {-1}>()
        a1 = Reshape(a, minus)
        b1 = Reshape(b, minus)""",
    "masks that are equal by data only": """
        n = Not(c)
        e = Not(n)
        p = Compress<axis=0>(x, c)
        q = Compress<axis=0>(y, e)
        o0 = Add(p, q)
        o1 = Concat<axis=1>(p, q, p)""",
    "a product over a size that data tells": """
        n = Not(c)
        e = Not(n)
        p = Compress<axis=0>(x, c)
        q = Compress<axis=0>(y, e)
        t = Transpose(p)
        o0 = MatMul(t, q)""",
    "a detector's tail": """
        overlap = Constant<value = float[1] {0.3}>()
        least = Constant<value = float[1] {0.1}>()
        picked = NonMaxSuppression(boxes, scores, most, overlap, least)
        zero = Constant<value = int64[1] {0}>()
        one = Constant<value = int64[1] {1}>()
        two = Constant<value = int64[1] {2}>()
        last = Constant<value = int64 {2}>()
        box = Gather<axis=1>(picked, last)
        flat = Squeeze(boxes, zero)
        own = Gather<axis=0>(flat, box)
        kind = Slice(picked, one, two, one)
        real = Cast<to=1>(kind)
        places = Concat<axis=1>(zeros, kinds, boxes_of)
        kinds = Slice(picked, one, two, one)
        boxes_of = Slice(picked, two, three, one)
        three = Constant<value = int64[1] {3}>()
        zeros = Slice(picked, zero, one, one)
        score = GatherND(scores, places)
        column = Unsqueeze(score, one)
        o0 = Concat<axis=1>(own, column, real)
        o1 = Identity(picked)""",
    "the shape of what was found": """
        p = Compress<axis=0>(x, c)
        size = Shape(p)
        filled = ConstantOfShape<value = float[1] {2}>(size)
        o0 = Add(filled, p)
        minus = Constant<value = int64[1] {-1}>()
        o1 = Reshape(p, minus)
        zero = Constant<value = int64[1] {0}>()
        one = Constant<value = int64[1] {1}>()
        number = Slice(size, zero, one)
        o2 = Slice(y, zero, number)
        both = Concat<axis=0>(number, number)
        single = Constant<value = int32 {7}>()
        o3 = Expand(single, both)""",
    "two sizes in one tensor": """
        p = NonZero(c)
        q = NonZero(d)
        o0 = Concat<axis=1>(p, q)
        o1 = Shape(o0)""",
    "unique": """
        o0, o1, o2, o3 = Unique(k)
        u, i, v, n = Unique<axis=0, sorted=0>(k)
        o4 = Gather<axis=0>(u, v)
        o5 = Identity(n)
        r = Cast<to=1>(o0)
        all = ReduceSum<keepdims=0>(r)
        o6 = Div(r, all)""",
    "a branch that finds": """
        any = Cast<to=7>(c)
        total = ReduceSum<keepdims=0>(any)
        two = Constant<value = int64 {2}>()
        many = Greater(total, two)
        o0 = If(many) <
            then_branch = then () => (float[n1, 3] p) { p = Compress<axis=0>(x, c) },
            else_branch = other () => (float[n2, 3] q) { q = Compress<axis=0>(y, d) }
        >
        o1 = Neg(o0)""",
    "a loop that finds": """
        trips = Constant<value = int64 {3}>()
        go = Constant<value = bool {1}>()
        start = Constant<value = float[3] {0, 0, 0}>()
        o0 = Loop(trips, go, start) <
            body = body (int64 i, bool on, float[3] s) => (bool on_out, float[3] s_out) {
                on_out = Identity(on)
                real = Cast<to=1>(i)
                more = Greater(x, real)
                number = Cast<to=6>(more)
                biggest = ReduceMax<axes=[1], keepdims=0>(number)
                keep = Cast<to=9>(biggest)
                p = Compress<axis=0>(x, keep)
                zero = Constant<value = int64[1] {0}>()
                sum = ReduceSum<keepdims=0>(p, zero)
                s_out = Add(s, sum)
            }
        >""",
    "carried tensors that shrink": """
        trips = Constant<value = int64 {4}>()
        go = Constant<value = bool {1}>()
        lo = Constant<value = float {-1}>()
        o0, o1 = Loop(trips, go, x, k) <
            body = body (int64 i, bool on, float[a, 3] s, int64[b] t) => (
                    bool on_out, float[a2, 3] s_out, int64[b2] t_out) {
                on_out = Identity(on)
                m1 = Greater(s, lo)
                m2 = Cast<to=6>(m1)
                m3 = ReduceMin<axes=[1], keepdims=0>(m2)
                keep = Cast<to=9>(m3)
                s1 = Compress<axis=0>(s, keep)
                half = Constant<value = float {0.9}>()
                s_out = Mul(s1, half)
                zero = Constant<value = int64 {0}>()
                m4 = Greater(t, zero)
                t1 = Compress<axis=0>(t, m4)
                one = Constant<value = int64 {1}>()
                t_out = Sub(t1, one)
            }
        >""",
    "branches that read what was found outside": """
        p = Compress<axis=0>(x, c)
        any = Cast<to=7>(c)
        total = ReduceSum<keepdims=0>(any)
        two = Constant<value = int64 {2}>()
        many = Greater(total, two)
        o0 = If(many) <
            then_branch = then () => (float[n1, 3] r) {
                    q = Compress<axis=0>(y, c)
                    r = Add(p, q)
                },
            else_branch = other () => (float[n2, 3] r2) {
                    q2 = Compress<axis=0>(y, d)
                    v = Neg(q2)
                    r2 = Concat<axis=0>(v, p)
                }
        >
        o1 = Add(p, p)
        o2 = Softmax<axis=0>(p)
        w = Constant<value = int64[2] {-1, 1}>()
        o3 = Reshape(p, w)
        axes = Constant<value = int64[1] {0}>()
        o4 = Unsqueeze(p, axes)""",
    "sizes that are equal by data only, everywhere": """
        n = Not(c)
        e = Not(n)
        p = Compress<axis=0>(x, c)
        q = Compress<axis=0>(y, e)
        o0 = Concat<axis=1>(p, q)
        o1 = Identity(q)
        s1 = Shape(p)
        s2 = Shape(q)
        o2 = Reshape(p, s2)
        o3 = Expand(q, s1)
        k1 = Compress<axis=0>(k, c)
        o4 = Gather<axis=0>(k, k1)
        f = Constant<value = float {0.5}>()
        o5 = CumSum(p, z)
        z = Constant<value = int64 {0}>()
        tt = Transpose<perm=[1,0]>(p)
        o6 = MatMul(q, tt)
        o7 = ReduceMax<axes=[1], keepdims=0>(p)
        six = Constant<value = int64[1] {2}>()
        o8, o9 = TopK<axis=1>(p, six)""",
}


def model_of(body: str, inputs: Mapping[str, str] = INPUTS) -> onnx.ModelProto:
    used = {name: text for name, text in inputs.items() if any(
        name in part.replace("(", " ").replace(")", " ").replace(",", " ").split() for part in body.splitlines())}
    words = body.replace(",", " ").replace("=", " ").split()
    outputs = sorted({word for word in words if word[0] == "o" and word[1:].isdigit()})
    text = (f'<ir_version: 8, opset_import: ["" : 17]>\nfound ({", ".join(f"{t} {n}" for n, t in used.items())}) => '
            f'({", ".join(f"float {name}" for name in outputs)}) {{{body}\n}}')
    model = onnx.parser.parse_model(text)
    for output in model.graph.output:
        output.ClearField("type")
    nodes = {name: node for node in model.graph.node for name in node.output}
    ordered: list[onnx.NodeProto] = []

    def visit(node: onnx.NodeProto) -> None:
        for name in node.input:
            if name in nodes and nodes[name] not in ordered:
                visit(nodes[name])
        if node not in ordered:
            ordered.append(node)

    for node in list(model.graph.node):
        visit(node)
    del model.graph.node[:]
    model.graph.node.extend(ordered)
    return model


def package_of(tmp_path: Path, model: onnx.ModelProto) -> Path:
    path, package = tmp_path / "found.onnx", tmp_path / "found.bin"
    path.write_bytes(model.SerializeToString())
    shapes = {value.name: tuple("0..40" if d.dim_param else d.dim_value for d in value.type.tensor_type.shape.dim)
              for value in model.graph.input}
    build(path, output=package, verify=False, shape=[
        f"{name}={','.join(map(str, dims))}" for name, dims in shapes.items()])
    return package


@pytest.mark.parametrize("name", MODELS)
def test_as_onnx_runtime(tmp_path: Path, name: str) -> None:
    model = model_of(MODELS[name])
    reference = onnxruntime.InferenceSession(model.SerializeToString())
    package = package_of(tmp_path, model)
    rng = np.random.default_rng(11)
    with load(package, threads=1) as one, load(package, threads=2) as two:
        for number, share in ((MOST, 0.5), (1, 1), (1, 0), (MOST, 0), (MOST, 1), (0, 0.5), (17, 0.3)):
            feeds = {key: array for key, array in data(rng, number, share).items()
                     if key in {value.name for value in model.graph.input}}
            wanted = reference.run(None, feeds)
            got, again = one.run(None, feeds), two.run(None, feeds)
            for i, (have, twice, want) in enumerate(zip(got, again, wanted, strict=True)):
                what = f"output {i} of {number} rows, {share} of them"
                assert (have.shape, have.dtype) == (want.shape, want.dtype), what
                np.testing.assert_allclose(have, want, 1e-5, 1e-6, err_msg=what)
                assert have.tobytes() == twice.tobytes(), what


def imported(body: str) -> Graph:
    """The graph of a model, as the importer leaves it."""
    model = model_of(body)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "found.onnx"
        path.write_bytes(model.SerializeToString())
        return import_model(path, {})


def test_equal_computations_share_their_sizes() -> None:
    for name in ("the same mask for two tensors", "equal masks that are computed twice"):
        ops = [node.op for node in imported(MODELS[name]).nodes]
        assert ops.count("NonZero") == 1 and not {"AssertShape", "Expand"} & set(ops), name


def test_sizes_that_may_differ_are_compared() -> None:
    ops = [node.op for node in imported(MODELS["masks that are equal by data only"]).nodes]
    assert (ops.count("NonZero"), ops.count("AssertShape"), ops.count("Expand")) == (2, 1, 2)


BROADCAST = """
    p = Compress<axis=0>(x, c)
    q = Compress<axis=0>(y, d)
    o0 = Add(p, q)
    o1 = Where(b, q, z)
    zero = Constant<value = float {0}>()
    b = Greater(p, zero)
    one = Constant<value = int64[1] {1}>()
    z = Unsqueeze(p, one)
    two = Constant<value = float[5, 1] {1, 2, 3, 4, 5}>()
    r = Compress<axis=0>(two, e)
    o2 = Mul(r, t)"""


def test_a_found_size_of_one_is_repeated(tmp_path: Path) -> None:
    model = model_of(BROADCAST, {**INPUTS, "e": "bool[5]", "t": "float[5, 2]"})
    reference = onnxruntime.InferenceSession(model.SerializeToString())
    rng = np.random.default_rng(3)
    with load(package_of(tmp_path, model), threads=2) as session:
        for first, second, third in ((1, 1, 1), (1, 6, 5), (6, 1, 1), (6, 6, 5), (0, 1, 1), (1, 0, 5), (0, 0, 1)):
            feeds = {key: array for key, array in data(rng, 6, 1).items() if key in ("x", "y")}
            feeds |= {"c": np.arange(6) < first, "d": np.arange(6) < second, "e": np.arange(5) < third,
                      "t": rng.standard_normal((5, 2)).astype(np.float32)}
            for have, want in zip(session.run(None, feeds), reference.run(None, feeds), strict=True):
                assert have.shape == want.shape
                np.testing.assert_array_equal(have, want)
        for first, second, third in ((2, 3, 5), (6, 4, 1), (0, 2, 5), (2, 2, 4), (3, 3, 0)):
            feeds |= {"c": np.arange(6) < first, "d": np.arange(6) < second, "e": np.arange(5) < third}
            with pytest.raises(MetaInferError, match="does not fit"):
                session.run(None, feeds)


def test_sizes_that_differ_are_an_error_of_the_run(tmp_path: Path) -> None:
    model = model_of("""
        p = Compress<axis=0>(x, c)
        q = Compress<axis=0>(y, d)
        o0 = Concat<axis=1>(p, q)""")
    feeds = data(np.random.default_rng(5), 9, 0.5)
    feeds = {name: feeds[name] for name in ("x", "y", "c", "d")}
    with load(package_of(tmp_path, model), threads=2) as session:
        for first, second in ((0, 1), (1, 0), (9, 8), (3, 9)):
            feeds |= {"c": np.arange(9) < first, "d": np.arange(9) < second}
            with pytest.raises(MetaInferError, match=f"does not fit.*: {second} is not {first}"):
                session.run(None, feeds)
        feeds["d"] = feeds["c"]                          # the session is as good as before
        (found,) = session.run(None, feeds)
        np.testing.assert_array_equal(found, np.concatenate([feeds["x"][:3], feeds["y"][:3]], 1))
