"""Decompositions for devices that lack an op: each against the op itself, in float64, on the op's own samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
import pytest

from meta_infer.hardware.load import load_profile, parse_profile
from meta_infer.hardware.profile import Profile
from meta_infer.ir.graph import Attr, Graph, Node, Value
from meta_infer.ir.graph_parser import parse_graph
from meta_infer.ops.attrs import ints_of
from meta_infer.ops.execute import execute_graph
from meta_infer.ops.infer import constant_type, counted_symbols, infer_node
from meta_infer.ops.opdef import TensorType
from meta_infer.ops.registry import OPS, op_named
from meta_infer.passes.check_rewrite import results_differ
from meta_infer.passes.decisions import Decision
from meta_infer.passes.decompose_for_device import FORMS
from meta_infer.passes.decompose_recurrent import MAX_STEPS
from meta_infer.passes.legalize import legalize
from meta_infer.passes.profile_words import profile_words
from meta_infer.passes.verify_types import verify
from meta_infer.support.dtypes import FLOAT64, dtype_of

Arrays = tuple[np.ndarray | None, ...]
ALL_WORDS = frozenset(
    {f"{kind}conv{n}d" for kind in ("", "depthwise_", "grouped_") for n in (1, 2, 3)}
    | {word for op in OPS if op.name != "Conv" for word in profile_words(Node(op.name, (), ()))})


def without(*ops: str, words: Iterable[str] = ()) -> Profile:
    """A device that lacks only `ops` (and `words`)."""
    lacking = {word for op in ops for word in (*profile_words(Node(op, (), ())), "relu6" if op == "Clip" else op)}
    return replace(load_profile("edge_npu_v2"), supported_ops=ALL_WORDS - lacking - set(words))


def graph_of(op: str, arrays: Arrays, attrs: Mapping[str, Attr], weights: tuple[int, ...] = ()) -> Graph:
    """One node; the operands at `weights` are constants, the others inputs i0, i1, ..."""
    names = tuple("" if a is None else f"i{i}" for i, a in enumerate(arrays))
    given = {name: a for name, a in zip(names, arrays, strict=True) if a is not None}
    fixed = {f"i{i}": given[f"i{i}"] for i in weights if f"i{i}" in given}
    types = {name: constant_type(a) for name, a in given.items()}
    node = Node(op, names, ("y",), attrs, ("node",))
    found = infer_node(node, types, fixed, counted_symbols())
    node = replace(node, outputs=tuple(f"y{i}" for i in range(len(found))))
    values = {name: Value(name, dtype_of(a), a.shape) for name, a in given.items()}
    values |= {name: Value(name, t.dtype, t.shape) for name, t in zip(node.outputs, found, strict=True)}
    return Graph("g", tuple(n for n in given if n not in fixed), node.outputs, (node,), values, fixed)


def check(graph: Graph, arrays: Arrays, device: Profile, gone: str) -> Graph:
    """Legalize for `device`, and hold it against the graph as it was."""
    record: list[Decision] = []
    after = legalize(graph, device, record=record)
    verify(after)
    assert record and record[0].verdict == "decomposed", record
    assert gone not in {node.op for node in after.nodes} and all(n.origins == ("node",) for n in after.nodes)
    inputs = {name: arrays[int(name[1:])] for name in graph.inputs}
    wanted = execute_graph(graph, inputs, FLOAT64)  # type: ignore[arg-type]
    found = execute_graph(after, inputs, FLOAT64)  # type: ignore[arg-type]
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-9, atol=1e-12, err_msg=str(graph.nodes[0]))
    return after


def doubled(arrays: Arrays) -> Arrays:
    return tuple(a.astype(np.float64) if a is not None and a.dtype.kind == "f" else a for a in arrays)


@pytest.mark.parametrize("op", [op for op in FORMS if op not in ("Conv", "MatMul")])
def test_samples(op: str) -> None:
    tried = 0
    for sample in op_named(op).samples(np.random.default_rng(1)):
        arrays = doubled(sample.inputs)
        if any(a is not None and a.dtype.kind not in "f" for a in arrays):
            continue                                       # integers, and sequences of several lengths
        if "ThresholdedRelu" in str(sample.attrs) or (op == "GlobalAveragePool" and 0 in arrays[0].shape):  # type: ignore[union-attr]
            continue
        if op in ("LSTM", "GRU", "RNN") and arrays[0] is not None and not 1 <= arrays[0].shape[0] <= MAX_STEPS:
            continue
        if op == "ReduceMean" and 0 in arrays[0].shape:  # type: ignore[union-attr]
            continue
        if op in ("Softmax", "LogSoftmax") and 0 in arrays[0].shape:  # type: ignore[union-attr]
            continue
        graph = graph_of(op, arrays, sample.attrs)
        check(graph, arrays, without(op), op)
        tried += 1
        if tried == 12:
            break
    assert tried


@pytest.mark.parametrize("attrs", [{}, {"empty": "zero", "softcap": 2.0}, {"causal": True, "offset": 1}], ids=str)
def test_attention_that_hides_keys(attrs: dict[str, Attr]) -> None:
    rng = np.random.default_rng(3)
    q, k, v = (rng.standard_normal(shape) for shape in ((2, 4, 3, 5), (2, 2, 6, 5), (2, 2, 6, 7)))
    seen = rng.random((2, 1, 3, 6)) < 0.6
    seen[1, 0, 2] = "empty" not in attrs
    seen[..., 0] |= "empty" not in attrs
    graph = graph_of("Attention", (q, k, v, seen), {"scale": 0.5, **attrs})
    check(graph, (q, k, v, seen), without("Attention"), "Attention")


@pytest.mark.parametrize("op", ["Sigmoid", "Tanh", "HardSwish", "Clip"])
def test_special_values(op: str) -> None:
    x = (np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 800.0, -800.0, 1e-300]),)
    attrs: dict[str, Attr] = {"min": 0.0, "max": 6.0} if op == "Clip" else {}
    check(graph_of(op, x, attrs), x, without(op), op)


CONV: dict[str, Attr] = {"kernel_shape": (3, 3), "strides": (2, 1), "pads": (1, 0, 2, 1), "dilations": (1, 2),
                         "group": 1}


def conv_arrays(made: int, taken: int, kernel: tuple[int, ...] = (3, 3), group: int = 1, batch: int = 2,
                size: int = 9) -> Arrays:
    rng = np.random.default_rng(2)
    return (rng.standard_normal((batch, taken, *(size,) * len(kernel))),
            rng.standard_normal((made, taken // group, *kernel)), rng.standard_normal(made))


@pytest.mark.parametrize(("group", "made", "taken"), [(2, 4, 6), (3, 3, 3), (4, 8, 4)])
def test_grouped_convolutions_become_one_per_group(group: int, made: int, taken: int) -> None:
    arrays = conv_arrays(made, taken, group=group)
    graph = graph_of("Conv", arrays, {**CONV, "group": group}, (1, 2))
    after = check(graph, arrays, without(words=["grouped_conv2d", "depthwise_conv2d"]), "ConvTranspose")
    assert [n.op for n in after.nodes].count("Conv") == group and all(
        n.attrs["group"] == 1 for n in after.nodes if n.op == "Conv")
    assert {n.op for n in after.nodes} == {"Slice", "Conv", "Concat"} and not any(
        name in after.constants for n in after.nodes if n.op == "Slice" for name in n.inputs)


def limited(limit: str) -> Profile:
    return parse_profile(
        f"name: board\ndevices:\n  - name: npu\n    kind: npu\n    op_limits:\n      - {{op: conv2d, {limit}, "
        "reason: the buffer is small}\n", "board", ())


@pytest.mark.parametrize("kernel", [(7, 7), (1, 5), (4, 3)])
def test_large_kernels_are_tiled(kernel: tuple[int, int]) -> None:
    arrays = conv_arrays(3, 2, kernel, size=12)
    graph = graph_of("Conv", arrays, {**CONV, "kernel_shape": kernel, "dilations": (2, 1)} if kernel != (7, 7) else {
        **CONV, "kernel_shape": kernel, "dilations": (1, 1)}, (1, 2))
    after = check(graph, arrays, limited("max_kernel: 3"), "ConvTranspose")
    shapes = [ints_of(n.attrs, "kernel_shape") for n in after.nodes if n.op == "Conv"]
    assert len(shapes) > 1 and all(max(shape) <= 3 for shape in shapes)


@pytest.mark.parametrize(("made", "taken"), [(5, 4), (3, 10), (9, 9)])
def test_many_channels_are_split(made: int, taken: int) -> None:
    arrays = conv_arrays(made, taken)
    graph = graph_of("Conv", arrays, CONV, (1, 2))
    after = check(graph, arrays, limited("max_channels: 4"), "ConvTranspose")
    convs = [n for n in after.nodes if n.op == "Conv"]
    assert len(convs) == -(-made // 4) * -(-taken // 4)


def test_kernel_and_channels_together() -> None:
    arrays = conv_arrays(6, 6, (5, 5))
    graph = graph_of("Conv", arrays, {**CONV, "kernel_shape": (5, 5), "dilations": (1, 1)}, (1, 2))
    check(graph, arrays, limited("max_kernel: 3, max_channels: 4"), "ConvTranspose")


def test_a_limit_without_a_way_out_goes_to_the_host_with_its_reason() -> None:
    arrays = conv_arrays(2, 2)
    record: list[Decision] = []
    warnings: list[str] = []
    graph = graph_of("Conv", arrays, CONV, (1, 2))
    assert legalize(graph, limited("max_stride: 1"), warnings.append, record=record) is graph
    assert [(d.verdict, d.field) for d in record] == [("host", "op_limits of conv2d")]
    assert "the buffer is small" in record[0].detail and "op_limits" in warnings[0]


def test_why_no_form_fits_is_said() -> None:
    x = (np.linspace(-3, 3, 7),)
    record: list[Decision] = []
    device = replace(load_profile("edge_npu_v2"), supported_ops=frozenset({"mul", "sigmoid"}))
    legalize(graph_of("Silu", x, {}), device, record=record)
    assert record[0].verdict == "decomposed" and record[0].detail == "Sigmoid, Mul"
    record.clear()
    legalize(graph_of("Gelu", x, {}), device, record=record)
    assert record[0].verdict == "host" and "erf" in record[0].detail and record[0].field == "supported_ops"


def test_forms_are_chosen_by_what_the_device_has() -> None:
    x = (np.linspace(-3, 3, 7),)
    device = replace(load_profile("edge_npu_v2"), supported_ops=frozenset({"mul", "add", "tanh"}))
    after = check(graph_of("Silu", x, {}), x, device, "Sigmoid")
    assert "Tanh" in {n.op for n in after.nodes}


@pytest.mark.parametrize("case", ["long", "lengths"])
def test_long_sequences_and_sequence_lens_stay(case: str) -> None:
    rng = np.random.default_rng(0)
    steps = MAX_STEPS + 1 if case == "long" else 3
    arrays: Arrays = (rng.standard_normal((steps, 2, 3)), rng.standard_normal((1, 4, 3)),
                      rng.standard_normal((1, 4, 4)))
    if case == "lengths":
        arrays = (*arrays, None, np.array([3, 1], np.int32))
    attrs: dict[str, Attr] = {"hidden_size": 4, "direction": "forward", "activations": ("Tanh",)}
    graph = graph_of("RNN", arrays, attrs, (1, 2))
    assert legalize(graph, without("RNN")) is graph


DYNAMIC = """graph main(%x: float64[N, 4, H, 12] @"x") -> (%y) {{
  symbol N in [1, 8] step 1
  symbol H in [9, 64] step 1
  %y: float64{made} @"y" = {op} from ("node")
}}
"""


@pytest.mark.parametrize(("op", "made", "device"), [
    ("Softmax(%x) {axis = 2}", "[N, 4, H, 12]", without("Softmax")),
    ("GlobalAveragePool(%x)", "[N, 4, 1, 1]", without("GlobalAveragePool")),
    ("Gelu(%x) {approximate = \"tanh\"}", "[N, 4, H, 12]", without("Gelu", "Tanh")),
])
def test_sizes_may_be_dynamic(op: str, made: str, device: Profile) -> None:
    before = parse_graph(DYNAMIC.format(op=op, made=made))
    record: list[Decision] = []
    after = legalize(before, device, record=record)
    verify(after)
    assert [d.verdict for d in record] == ["decomposed"] and results_differ(before, after) is None


def with_weight(op: str, w: np.ndarray, attrs: Mapping[str, Attr]) -> Graph:
    """One node on x [N, 4, H, 12] of dynamic N and H, and a constant weight."""
    base = parse_graph(DYNAMIC.format(op="Relu(%x)", made="[N, 4, H, 12]"))
    node = Node(op, ("x", "w"), ("y",), attrs, ("node",))
    types = {"x": TensorType(FLOAT64, base.values["x"].shape), "w": constant_type(w)}
    (found,) = infer_node(node, types, {"w": w}, counted_symbols())
    values = {**base.values, "w": Value("w", FLOAT64, w.shape), "y": Value("y", FLOAT64, found.shape, "y")}
    return base.replace(nodes=(node,), values=values, constants={"w": w})


@pytest.mark.parametrize(("op", "shape", "attrs", "device"), [
    ("Conv", (6, 2, 3, 3), {"group": 2}, without(words=["grouped_conv2d"])),
    ("Conv", (3, 4, 5, 5), {"strides": (2, 1), "pads": (2, 0, 1, 2)}, limited("max_kernel: 3")),
    ("Conv", (9, 4, 3, 3), {"dilations": (2, 1)}, limited("max_channels: 3")),
    ("ConvTranspose", (4, 3, 3, 2), {"strides": (2, 3), "pads": (1, 0, 0, 1), "output_padding": (1, 0)},
     without("ConvTranspose")),
    ("ConvTranspose", (4, 1, 3, 3), {"group": 2, "dilations": (1, 2)}, without("ConvTranspose")),
    ("ConvTranspose", (4, 2, 2, 2), {"pads": (3, 2, 2, 3), "strides": (2, 2)}, without("ConvTranspose")),
])
def test_convolutions_of_dynamic_sizes(op: str, shape: tuple[int, ...], attrs: Mapping[str, Attr],
                                       device: Profile) -> None:
    plain: dict[str, Attr] = {"strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1), "group": 1,
                              "kernel_shape": shape[2:], **attrs}
    before = with_weight(op, np.random.default_rng(3).standard_normal(shape), plain)
    after = legalize(before, device)
    verify(after)
    assert after is not before and results_differ(before, after) is None


def test_bodies_of_control_flow_are_decomposed() -> None:
    graph = parse_graph("""graph main(%c: bool[], %x: float32[3, 4] @"x") -> (%y) {
      %y: float32[3, 4] @"y" = If(%c) from ("if") regions {
        region then() captures (%x) -> (%a) {
          %a: float32[3, 4] = HardSwish(%x) from ("one")
        }
        region else() captures (%x) -> (%b) {
          %b: float32[3, 4] = Softmax(%x) {axis = 1} from ("two")
        }
      }
    }""")
    record: list[Decision] = []
    after = legalize(graph, without("HardSwish", "Softmax"), record=record)
    verify(after)
    assert [(d.op, d.verdict, d.nodes) for d in record] == [
        ("HardSwish", "decomposed", ("one",)), ("Softmax", "decomposed", ("two",))]
    assert results_differ(graph, after) is None


def test_casts_of_widening_are_not_the_devices() -> None:
    x = (np.linspace(-3, 3, 8).astype(np.float16).reshape(2, 4),)
    record: list[Decision] = []
    warnings: list[str] = []
    legalize(graph_of("Softmax", x, {"axis": 1}), without(words=["cast", "elementwise_cast"]), warnings.append,
             record=record)
    assert record == [] and warnings == []


def test_operands_that_are_constants_are_computed_at_build() -> None:
    """Reciprocal of a constant is neither run nor decomposed in its turn."""
    x, c = np.linspace(-3, 3, 7), np.array(4.0)
    device = replace(load_profile("edge_npu_v2"), supported_ops=frozenset({"mul"}))
    after = check(graph_of("Div", (x, c), {}, (1,)), (x, c), device, "Div")
    assert [n.op for n in after.nodes] == ["Mul"] and 0.25 in [float(a) for a in after.constants.values()]


def test_a_node_of_constants_alone_becomes_one() -> None:
    """What fold_constants leaves because it would grow."""
    x = np.zeros((1, 9))
    after = legalize(graph_of("Sigmoid", (x,), {}, (0,)), without("Sigmoid"))
    assert after.nodes == () and after.constants["y0"].tolist() == [[0.5] * 9]


@pytest.mark.parametrize("seed", range(4))
def test_random_devices(seed: int) -> None:
    """Devices that lack a random half of the ops: whatever comes out means the same, and comes to rest."""
    rng = np.random.default_rng(seed)
    changed = 0
    for op in FORMS:
        samples = [s for s in op_named(op).samples(rng)
                   if all(a is None or (a.dtype.kind == "f" and 0 < a.size < 2000) for a in s.inputs)]
        sample = samples[rng.integers(len(samples))]
        arrays = doubled(sample.inputs)
        weights = tuple(i for i in range(1, len(arrays)) if rng.random() < 0.5)
        lacking = [other for other in FORMS if other != "Conv" and rng.random() < 0.5]
        graph = graph_of(op, arrays, sample.attrs, weights)
        after = legalize(graph, without(*lacking, *([op] if op != "Conv" else []), words=["grouped_conv2d"]))
        verify(after)
        changed += after is not graph
        inputs = {name: arrays[int(name[1:])] for name in graph.inputs}
        wanted = execute_graph(graph, inputs, FLOAT64)  # type: ignore[arg-type]
        found = execute_graph(after, inputs, FLOAT64)  # type: ignore[arg-type]
        for name, array in wanted.items():
            np.testing.assert_allclose(found[name], array, rtol=1e-9, atol=1e-12, err_msg=f"{op} without {lacking}")
    assert changed > 5
