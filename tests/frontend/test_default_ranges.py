"""Ranges that nobody gave: a model that takes some sizes only gets those."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from meta_infer.frontend.import_model import import_model
from meta_infer.ir.graph import Graph
from meta_infer.support.errors import ModelError

node = helper.make_node


def imported(path: Path) -> tuple[Graph, str, str]:
    """The graph, the range taken as `--shape` writes it, and the whole note."""
    notes: list[str] = []
    graph = import_model(path, note=notes.append)
    assert len(notes) == 1
    return graph, notes[0].split("taking ", 1)[1].split(" ", 1)[0].split(";")[0], notes[0]


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


CASES: dict[str, tuple[list[Any], list[Any], dict[str, np.ndarray], str]] = {
    "nothing_to_narrow": (
        [node("Relu", ["x"], ["y"])], ["n", "?", "?", "?"], {}, "x=1..8,1..512,1..640,1..640"),
    "odd_sizes_differ": (
        [node("MaxPool", ["x"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
         node("Resize", ["p", "", "scales"], ["r"], mode="nearest"), node("Add", ["r", "x"], ["y"])],
        [1, 4, "h", "w"], {"scales": np.array([1, 1, 2, 2], np.float32)}, "x=?,?,32..640:32,32..640:32"),
    "one_window_does_not_fit": (
        [node("MaxPool", ["x"], ["y"], kernel_shape=[40, 1])], [1, 4, "h", "w"], {}, "x=?,?,48..640,32..640"),
    "channels_of_a_weight": (
        [node("Conv", ["x", "k"], ["y"], kernel_shape=[3, 3])], ["?", "?", "?", "?"], {"k": zeros(8, 5, 3, 3)},
        "x=1..8,5,32..640,32..640"),
    "features_of_a_matrix": (
        [node("MatMul", ["x", "m"], ["y"])], ["n", "f"], {"m": zeros(33, 7)}, "x=1..8,33"),
    "rows_of_a_table": (
        [node("Shape", ["x"], ["s"]), node("Gather", ["s", "one"], ["length"]),
         node("Slice", ["table", "zero", "length", "zero"], ["rows"]), node("Add", ["x", "rows"], ["y"])],
        ["batch", "seq", 6], {"one": np.array([1]), "zero": np.array([0]), "table": zeros(77, 6)},
        "x=1..8,1..77,?"),
    "square_images_only": (
        [node("Conv", ["x", "k"], ["c"], kernel_shape=[16, 16], strides=[16, 16]),
         node("Reshape", ["c", "shape"], ["t"]), node("Add", ["t", "positions"], ["y"])],
        ["batch", 3, "height", "width"],
        {"k": zeros(8, 3, 16, 16), "shape": np.array([0, 8, -1]), "positions": zeros(8, 196)}, "x=1..8,?,224,224"),
    "a_batch_that_is_written_down": (
        [node("Reshape", ["x", "shape"], ["y"])], ["n", 12], {"shape": np.array([2, 12])}, "x=2,?"),
    "padding_that_varies": (
        [node("Conv", ["x", "k"], ["y"], kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER")],
        [1, 3, "h", "w"], {"k": zeros(8, 3, 3, 3)}, "x=?,?,1..640,1..640"),
    "positions_of_padding_that_would_vary": (
        [node("MaxPool", ["x"], ["v", "i"], kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER"),
         node("Cast", ["i"], ["y"], to=1)], [1, 3, "h", "w"], {}, "x=?,?,32..640:32,32..640:32"),
    "height_of_a_text_line": (
        [node("MaxPool", ["x"], ["p"], kernel_shape=[48, 1]), node("Squeeze", ["p", "two"], ["s"]),
         node("Transpose", ["s"], ["y"], perm=[0, 2, 1])], ["n", 3, "?", "w"], {"two": np.array([2])},
        "x=1..8,?,48,1..640"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_range_is_found(name: str, make_model: Callable[..., Path], info: Any) -> None:
    nodes, shape, constants, wanted = CASES[name]
    graph, taken, note = imported(make_model(nodes, [info("x", shape)], [info("y", None)], constants=constants))
    assert taken == wanted
    assert "set it with --shape x=" in note
    assert ("what the model was found to accept" in note) == (name not in ("nothing_to_narrow", "padding_that_varies"))
    assert graph.outputs


def test_what_the_user_gives_is_kept(make_model: Callable[..., Path], info: Any) -> None:
    """The other dimensions are searched around it, and a bad one is an error that names the node."""
    nodes, shape, constants, _ = CASES["odd_sizes_differ"]
    path = make_model(nodes, [info("x", shape)], [info("y", None)], constants=constants)
    notes: list[str] = []
    import_model(path, {"x": "?,?,6..10:2,?"}, notes.append)
    assert "taking x=?,?,?,32..640:32 " in notes[0]
    with pytest.raises(ModelError, match="'Add@2'|Add"):
        import_model(path, {"x": "?,?,5..9,?"})


def test_a_model_that_no_range_fits_is_refused_with_its_first_error(make_model: Callable[..., Path],
                                                                    info: Any) -> None:
    nodes = [node("MatMul", ["x", "a"], ["y"]), node("MatMul", ["x", "b"], ["z"]), node("Add", ["y", "z"], ["s"])]
    path = make_model(nodes, [info("x", ["n", "f"])], [info("s", None)],
                      constants={"a": zeros(9000, 2), "b": zeros(8000, 2)})
    with pytest.raises(ModelError, match="9000"):
        import_model(path)


@pytest.mark.parametrize(("name", "wanted"), [
    ("ppocr_det", "x=1..8,?,32..640:32,32..640:32"), ("ppocr_rec", "x=1..8,?,48,32..640"),
    ("ppocr_cls", "x=1..8,?,48..640,32..640"), ("crnn_bilstm", "x=?,?,?,32..640"),
    ("minilm_l6", "input_ids=1..8,1..512")])
def test_real_models_need_no_shape(name: str, wanted: str, real_model: Callable[[str], Path]) -> None:
    assert imported(real_model(name))[1] == wanted
