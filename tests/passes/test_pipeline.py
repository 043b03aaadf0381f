"""The pipeline: its switches and names, that it comes to rest, and that it keeps what random graphs compute."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from meta_infer.ir.graph import Attr, Graph, Node, Value
from meta_infer.ir.graph_parser import parse_graph
from meta_infer.ir.graph_text import print_graph
from meta_infer.ir.shapes import Dim
from meta_infer.passes import pipeline
from meta_infer.passes.check_rewrite import check_rewrite, results_differ
from meta_infer.passes.pipeline import CANONICALIZE, canonicalize, check_pass_names, name_of, pass_names
from meta_infer.support.dtypes import FLOAT32
from meta_infer.support.errors import InternalError, UsageError

TEXT = """graph main(%x: float32[N, 4] @"x") -> (%y) {
  symbol N in [1, 8] step 1
  const %root: float32[] = (1.4142135381698608,)
  const %one: float32[] = (1.0,)
  const %two: float32[] = (2.0,)
  %i: float32[N, 4] = Identity(%x) from ("id")
  %d: float32[N, 4] = Div(%i, %root) from ("div")
  %e: float32[N, 4] = Erf(%d) from ("erf")
  %g: float32[N, 4] = Add(%e, %one) from ("add")
  %m: float32[N, 4] = Mul(%x, %g) from ("mul")
  %y: float32[N, 4] @"y" = Div(%m, %two) from ("half")
}
"""


def test_raises_through_identities_and_division() -> None:
    graph = canonicalize(parse_graph(TEXT))
    assert [node.op for node in graph.nodes] == ["Gelu"]
    assert graph.outputs == ("y",) and graph.values["y"].origin == "y"


def test_disabled_pass_does_not_run() -> None:
    seen: list[str] = []
    graph = canonicalize(parse_graph(TEXT), frozenset({"raise_gelu"}), lambda name, before, after: seen.append(name))
    assert "Erf" in {node.op for node in graph.nodes} and "raise_gelu" not in seen and "remove_identity" in seen


def test_unknown_pass_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean 'raise_gelu'") as caught:
        canonicalize(parse_graph(TEXT), frozenset({"raise_gelo"}))
    assert caught.value.exit_code == 2 and caught.value.what == "--disable raise_gelo"
    assert check_pass_names(["fuse_epilogue"]) == {"fuse_epilogue"}


def test_names_are_files() -> None:
    folder = Path(pipeline.__file__).parent
    for name in pass_names():
        assert (folder / f"{name}.py").exists()
    for rewrite in CANONICALIZE:
        assert rewrite.__doc__


def test_dump_writes_numbered_ir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("META_INFER_DUMP", str(tmp_path / "dump"))
    graph = canonicalize(parse_graph(TEXT))
    files = sorted(path.name for path in (tmp_path / "dump").iterdir())
    assert files[0] == "000_import.ir" and "001_remove_identity.ir" in files
    assert [int(name[:3]) for name in files] == list(range(len(files)))
    assert (tmp_path / "dump" / files[-1]).read_text(encoding="utf-8") == print_graph(graph)


def test_dump_into_what_is_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("META_INFER_DUMP", str(tmp_path / "file"))
    with pytest.raises(UsageError, match="cannot be written") as caught:
        canonicalize(parse_graph(TEXT))
    assert "META_INFER_DUMP" in str(caught.value)


@pytest.mark.parametrize("level", ["1", "2", "3"])
def test_verify_levels_accept_what_is_right(level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("META_INFER_VERIFY", level)
    assert len(canonicalize(parse_graph(TEXT)).nodes) == 1


def test_verify_names_the_rewrite_that_diverges(monkeypatch: pytest.MonkeyPatch) -> None:
    def swap_relu(graph: Graph) -> Graph:
        nodes = tuple(replace(node, op="Abs") if node.op == "Gelu" else node for node in graph.nodes)
        return graph if nodes == graph.nodes else graph.replace(nodes=tuple(replace(n, attrs={}) for n in nodes))

    monkeypatch.setattr(pipeline, "CANONICALIZE", (*CANONICALIZE, swap_relu))
    assert canonicalize(parse_graph(TEXT)).nodes[0].op == "Abs"
    monkeypatch.setenv("META_INFER_VERIFY", "3")
    with pytest.raises(InternalError, match="pass swap_relu: changes the results: output %y"):
        canonicalize(parse_graph(TEXT))


def test_verify_names_the_pass_that_breaks_the_ir() -> None:
    graph = parse_graph(TEXT)
    wrong_type = graph.replace(values={**graph.values, "e": replace(graph.values["e"], shape=(4,))})
    with pytest.raises(InternalError, match="pass p: left broken IR: node 'erf' .*%e: float32.4. is declared"):
        check_rewrite("p", graph, wrong_type, 1)
    check_rewrite("p", graph, wrong_type, 0)
    with pytest.raises(InternalError, match="pass p: left broken IR"):
        check_rewrite("p", graph, graph.replace(nodes=graph.nodes[::-1]), 1)
    with pytest.raises(InternalError, match="outputs y became x"):
        check_rewrite("p", graph, graph.replace(outputs=("x",)), 3)


@pytest.mark.parametrize("size, folds", [(64, True), (1024, False)])
def test_folding_does_not_blow_constants_up(size: int, folds: bool) -> None:
    graph = parse_graph(f"""graph main() -> (%y) {{
      const %k: float32[] = (1.0,)
      %y: float32[{size}, {size}] = Expand(%k) {{shape = ({size}, {size})}}
    }}""")
    assert (canonicalize(graph).nodes == ()) == folds


def test_folding_converts_stored_weights() -> None:
    weights = np.arange(40000).astype(np.int8).reshape(200, 200)
    graph = parse_graph("""graph main(%x: float32[3, 200]) -> (%y) {
      const %w: int8[200, 200] = #00
      %f: float32[200, 200] = Cast(%w) {to = float32}
      %y: float32[3, 200] = MatMul(%x, %f)
    }""", {"00": weights})
    assert [node.op for node in canonicalize(graph).nodes] == ["MatMul"]


def random_graph(seed: int) -> Graph:
    """Ops that many passes look for, with the constants they look for, on operands of shape [N, 4]."""
    rng = np.random.default_rng(seed)
    n = parse_graph(TEXT).values["x"].shape[0]
    arrays = {f"k{i}": np.array(v, np.float32) for i, v in enumerate((0, 1, 2, 0.5, 3, 6, -1))}
    arrays["row"] = np.array([1, 2, -3, 0.5], np.float32)
    values = {name: Value(name, FLOAT32, array.shape) for name, array in arrays.items()}
    values |= {name: Value(name, FLOAT32, (n, 4), name) for name in ("x", "z")}
    nodes: list[Node] = []

    def add(op: str, *inputs: str, shape: tuple[Dim, ...] = (n, 4), **attrs: Attr) -> str:
        name = f"v{len(nodes)}"
        values[name] = Value(name, FLOAT32, shape, name)
        nodes.append(Node(op, inputs, (name,), attrs, (f"node{len(nodes)}",)))
        return name

    live = ["x", "z"]
    for _ in range(int(rng.integers(4, 30))):
        a, b = (str(rng.choice(live[-5:])) for _ in range(2))
        k = str(rng.choice(list(arrays)))
        unary = str(rng.choice(["Identity", "Neg", "Sigmoid", "Erf", "Relu"]))
        steps = (
            lambda a=a, k=k: add(str(rng.choice(["Add", "Mul", "Sub"])), a, k),
            lambda a=a, k=k: add("Add", k, a),
            lambda a=a, b=b: add(str(rng.choice(["Add", "Mul"])), a, b),
            lambda a=a, unary=unary: add(unary, a),
            lambda a=a: add("Clip", a, min=0.0, max=6.0),
            lambda a=a: add("Div", a, str(rng.choice(["k2", "k5"]))),
            lambda a=a, k=k: add("Mul", a, add("Add", "k0", k, shape=arrays[k].shape)),
            lambda a=a: add("Reshape", add("Reshape", a, shape=(n * 4,)), shape=(n, 4)),
            lambda a=a, unary=unary: add("Transpose", add(unary, add("Transpose", a, shape=(4, n), perm=(1, 0)),
                                                          shape=(4, n)), perm=(1, 0)))
        live.append(steps[rng.integers(len(steps))]())
    nodes = [replace(node, attrs={"shape": values[node.outputs[0]].shape}) if node.op == "Reshape" else node
             for node in nodes]
    outputs = tuple(dict.fromkeys([live[-1], str(rng.choice(live)), str(rng.choice(live))]))
    return Graph("random", ("x", "z"), outputs, tuple(nodes), values, arrays)


@pytest.mark.parametrize("seed", range(40))
def test_random_graphs_keep_their_results(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("META_INFER_VERIFY", "2")
    before = random_graph(seed)
    after = canonicalize(before)
    assert results_differ(before, after, seed) is None
    assert after.outputs == before.outputs and after.inputs == before.inputs
    assert canonicalize(after) is after, f"not at rest: {[name_of(p) for p in CANONICALIZE if p(after) is not after]}"
