"""Goldens of error messages: tiny models in ONNX's text syntax, each with the whole text of the error it meets.

    == softmax_axis
    opset 17
    (float[2,3] x) => (y) { y = Softmax <axis = 5> (x) }
    --
    frontend: node #0 (Softmax): ...
      try: ...

A case is a graph, a whole model (`<ir_version: 8, ...> ...`), or `built` for what text cannot say: then the function
of its name in error_builders.py makes the file. `--shape x=1,2` lines are what the flag of that name is given.

    python -m tests.frontend.error_goldens      rewrites the texts behind `--`; read the difference before you commit it
"""

from __future__ import annotations

import functools
import re
import tempfile
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import onnx
from onnx import defs, parser

from meta_infer.frontend.import_model import import_model
from meta_infer.frontend.symbols import parse_shape_specs
from meta_infer.support.errors import MetaInferError

from . import error_builders

FOLDER = Path(__file__).parent / "goldens"
_HEADER = '<ir_version: 8, opset_import: ["" : {}, "com.microsoft" : 1, "ai.onnx.ml" : 3]> g '
_VERSIONS = {f"onnx {onnx.__version__}": "onnx <version>", f"up to {onnx.IR_VERSION}": "up to <newest>",
             f"newer than {defs.onnx_opset_version()},": "newer than <newest>,",
             f"convert_version(model, {defs.onnx_opset_version()})": "convert_version(model, <newest>)"}


@dataclass(frozen=True)
class Golden:
    """One case: `model` as text, `built` or empty lines left out, and the text of its error."""

    name: str
    model: str
    text: str
    opset: int = 17
    shapes: tuple[str, ...] = ()

    def __str__(self) -> str:
        head = [f"opset {self.opset}"] if self.opset != 17 else []
        return "\n".join([f"== {self.name}", *head, *(f"--shape {s}" for s in self.shapes), self.model, "--",
                          self.text]) + "\n"


@dataclass(frozen=True)
class Caught:
    """The error of a case, and every place (file, line) that its chain of causes passed."""

    error: MetaInferError
    text: str
    places: frozenset[tuple[str, int]]


def read(file: Path) -> Iterator[Golden]:
    for block in re.split(r"^== ", file.read_text(), flags=re.MULTILINE)[1:]:
        name, _, rest = block.partition("\n")
        model, _, text = rest.partition("\n--\n")
        lines = model.splitlines()
        opset = next((int(line.split()[1]) for line in lines if line.startswith("opset ")), 17)
        shapes = tuple(line.split(maxsplit=1)[1] for line in lines if line.startswith("--shape "))
        model = "\n".join(line for line in lines if not line.startswith(("opset ", "--shape ")))
        yield Golden(name.strip(), model, text.strip("\n"), opset, shapes)


def all_goldens() -> list[Golden]:
    return [golden for file in sorted(FOLDER.glob("*.txt")) for golden in read(file)]


@functools.cache
def catch(golden: Golden) -> Caught:
    """Import the case's model, and give the error. Raises AssertionError when there is none, or it has no hint."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        try:
            path = _model(golden, folder)
            import_model(path, parse_shape_specs(golden.shapes))
        except MetaInferError as error:
            text = str(error).replace(str(folder), "<folder>")
            for found, word in _VERSIONS.items():
                text = text.replace(found, word)
            text = re.sub(r"(cannot convert it: ).*", r"\1<reason>", text)   # C++ words of onnx
            return Caught(error, text, frozenset(_places(error)))
    raise AssertionError(f"{golden.name}: no error")


def _model(golden: Golden, folder: Path) -> Path:
    if golden.model == "built":
        return getattr(error_builders, golden.name)(folder)
    path = folder / "model.onnx"
    text = golden.model if golden.model.startswith("<") else _HEADER.format(golden.opset) + golden.model
    path.write_bytes(parser.parse_model(text).SerializeToString())
    return path


def _places(error: BaseException) -> Iterator[tuple[str, int]]:
    seen: set[int] = set()
    left: list[BaseException | None] = [error]
    while left:
        found = left.pop()
        if found is None or id(found) in seen:
            continue
        seen.add(id(found))
        for frame in traceback.extract_tb(found.__traceback__):
            yield frame.filename, frame.lineno or 0
        left += [found.__cause__, found.__context__]


def rewrite() -> None:
    for file in sorted(FOLDER.glob("*.txt")):
        goldens = []
        for golden in read(file):
            try:
                goldens.append(replace(golden, text=catch(golden).text))
            except Exception as error:  # noqa: BLE001 - a case that is wrong is shown, and kept
                print(f"{golden.name}: {type(error).__name__}: {error}")
                goldens.append(golden)
        file.write_text("\n".join(map(str, goldens)))


if __name__ == "__main__":
    rewrite()
