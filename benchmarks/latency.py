"""Latency of whole models, side by side with ONNX Runtime: one process, taking turns.

    python benchmarks/latency.py --threads 1 2 --markdown                # all real models, as in docs/benchmarks.md
    python benchmarks/latency.py resnet18 mobilenetv2 minilm_l6 --threads 1 2 --dim batch=1 --dim seq=16,128
    python benchmarks/latency.py path/to/model.onnx --shape x=1,3,32..640,32..640 --dim x_d2=224 --dim x_d3=224

A model is a file, `digits` (the network that ships), or a name found in META_INFER_MODELS (default: ../shared/models;
what is only a graph there gets its weights from the recipe beside it). Each is built into a package first. Both sides
get the same inputs and the same number of threads; ONNX Runtime runs with its default optimisations. Milliseconds and
ratio are those of the round whose ratio is the median: below 1, meta-infer is quicker. The difference is the largest
of all outputs, relative to ONNX Runtime's largest value.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib import metadata
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.models.cases import CASES, REAL
from tests.real_models import ModelMissing, find_model

from meta_infer import __version__, api
from meta_infer.frontend.import_model import import_model
from meta_infer.frontend.symbols import parse_shape_spec
from meta_infer.hardware.load import load_profile
from meta_infer.ir.graph import Graph
from meta_infer.ir.shapes import Symbol
from meta_infer.runtime.session import load
from meta_infer.search.measure.interleave import interleave, median_round
from meta_infer.support.errors import MetaInferError
from meta_infer.support.switches import read_switches
from meta_infer.verify.metrics import distance
from meta_infer.verify.reference import reference_session, run_reference
from meta_infer.verify.samples import random_inputs

KNOWN = {case.name: case for case in CASES}
DIGITS = Path(api.__file__).resolve().parent / "demo" / "digits.onnx"
USUAL = 128
"""The size of a dynamic dim that is no batch, where its range has it and --dim does not say."""


@dataclass(frozen=True)
class Row:
    """One line of the table. Times in seconds per run; `spread` holds the middle half of the rounds' ratios."""

    model: str
    dims: Mapping[str, int]
    threads: int
    seconds: float
    reference_seconds: float
    ratio: float
    spread: tuple[float, float]
    relative_difference: float
    rounds: int
    runs: int


def find(name: str, cache: Path) -> Path:
    """The ONNX file of a model given by path or by name. Raises ModelMissing."""
    if name == "digits":
        return DIGITS
    path = Path(name)
    if path.suffix == ".onnx":
        if not path.exists():
            raise ModelMissing(f"{path} does not exist")
        return path
    return find_model(name, cache)


def points(symbols: Mapping[str, Symbol], given: Mapping[str, Sequence[int]]) -> Iterator[dict[str, int]]:
    """Every combination of the sizes given for the model's dynamic dims; without one: batch 1, others about USUAL."""
    choices = []
    for name, symbol in symbols.items():
        usual = 1 if "batch" in name else USUAL
        nearest = min(max(usual, symbol.lo), symbol.hi)
        choices.append(given.get(name) or [symbol.lo + (nearest - symbol.lo) // symbol.step * symbol.step])
    for sizes in itertools.product(*choices):
        yield dict(zip(symbols, sizes, strict=True))


def compare(name: str, model: Path, package: Path, graph: Graph, dims: Mapping[str, int], threads: int, rounds: int,
            seconds: float) -> Row:
    """Both sides in turns on one input."""
    inputs = random_inputs(graph, dims, seed=0)
    reference = reference_session(model, threads)
    with load(package, threads=threads) as session:
        pairs = zip(session.run(None, inputs), run_reference(reference, inputs), strict=True)
        difference = max(distance(ours, theirs).relative for ours, theirs in pairs)
        declared = {i.name for i in reference.get_inputs()}
        feeds = {name: array for name, array in inputs.items() if name in declared}
        # Its bare run: run_reference starts a clock for every call, which costs more than a small network.
        found = interleave({"ours": partial(session.run, None, inputs),
                            "theirs": partial(reference.run, None, feeds)}, rounds=rounds, seconds=seconds)
    ours, theirs = found["ours"], found["theirs"]
    middle = median_round(ours, theirs)
    ratios = sorted(a / b for a, b in zip(ours.rounds, theirs.rounds, strict=True))
    quarter = len(ratios) // 4
    return Row(name, dims, threads, middle.seconds, middle.reference, middle.ratio,
               (ratios[quarter], ratios[-1 - quarter]), difference, len(ratios), ours.count)


def environment() -> dict[str, str]:
    """What the figures depend on, for the reader."""
    host = load_profile("native")
    versions = [f"meta-infer {__version__}",
                *(f"{name} {metadata.version(name)}" for name in ("onnxruntime", "ziglang", "numpy"))]
    return {"cpu": f"{host.chip.description or 'unknown CPU'}, {host.cores} cores, {host.isa}",
            "date": datetime.date.today().isoformat(), "versions": ", ".join(versions)}


def cells(row: Row) -> list[str]:
    """The row as text: model, sizes, threads, ours, theirs, ratio (and its middle half), difference."""
    dims = ", ".join(f"{name} {size}" for name, size in row.dims.items()) or "static"
    return [row.model, dims, str(row.threads), f"{row.seconds * 1e3:.3f}", f"{row.reference_seconds * 1e3:.3f}",
            f"{row.ratio:.2f}", f"{row.spread[0]:.2f}..{row.spread[1]:.2f}", f"{row.relative_difference:.1e}"]


HEAD = ["model", "sizes", "threads", "meta-infer ms", "ONNX Runtime ms", "ratio", "middle half", "difference"]


def print_markdown(rows: Sequence[Row]) -> None:
    about = environment()
    print(f"{about['cpu']}; {about['date']}; {about['versions']}\n")
    print("| " + " | ".join(HEAD) + " |\n|---|---|" + "---:|" * (len(HEAD) - 2))
    for row in rows:
        print("| " + " | ".join(cells(row)) + " |")


def print_text(rows: Sequence[Row]) -> None:
    print("; ".join(environment().values()))
    lines = [HEAD, *map(cells, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEAD))]
    for line in lines:
        print("  ".join(text.ljust(w) if i < 2 else text.rjust(w)
                        for i, (text, w) in enumerate(zip(line, widths, strict=True))))


def parse_dims(texts: Sequence[str]) -> dict[str, list[int]]:
    """`seq=16,128` as {'seq': [16, 128]}."""
    found = {}
    for text in texts:
        name, equals, sizes = text.partition("=")
        if not equals or not all(size.isdigit() for size in sizes.split(",")):
            raise SystemExit(f"--dim {text!r}: write NAME=SIZE or NAME=SIZE,SIZE")
        found[name] = [int(size) for size in sizes.split(",")]
    return found


def run(options: argparse.Namespace) -> tuple[list[Row], bool]:
    """Rows of all models, and whether all of them could be compared."""
    cache = read_switches().cache / "benchmarks"
    cache.mkdir(parents=True, exist_ok=True)
    given = parse_dims(options.dim)
    rows: list[Row] = []
    unused, complete = set(given), True
    for name in options.models:
        try:
            model = find(name, cache)
            known, label = KNOWN.get(name), Path(name).stem
            shapes = tuple(options.shape) or (known.shape if known is not None else ())
            sizes = {**known.usual, **given} if known is not None else given
            package = cache / f"{model.stem}.bin"
            print(f"{name}: building", file=sys.stderr)
            api.build(model, output=package, shape=shapes, verify=False)
            graph = import_model(model, dict(map(parse_shape_spec, shapes)))
            unused -= set(graph.input_symbols)
            for dims, threads in itertools.product(points(graph.input_symbols, sizes), options.threads):
                rows.append(compare(label, model, package, graph, dims, threads, options.rounds, options.seconds))
                print(f"{name}: {' '.join(cells(rows[-1])[1:])}", file=sys.stderr)
        except (MetaInferError, ModelMissing) as error:
            print(f"{name}: {error}", file=sys.stderr)
            complete = False
    for name in sorted(unused):
        print(f"--dim {name}: no model has a dynamic dimension of this name", file=sys.stderr)
    return rows, complete and not unused


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=[*REAL, "digits"], help="ONNX files, or names; all if none")
    parser.add_argument("--threads", type=int, nargs="+", default=[1], help="of both sides; several make several rows")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--seconds", type=float, default=8.0, help="time for one row, building not counted")
    parser.add_argument("--dim", action="append", default=[], metavar="NAME=SIZE[,SIZE]", help="sizes of a dynamic dim")
    parser.add_argument("--shape", action="append", default=[], metavar="NAME=DIMS", help="as of meta-infer build")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--markdown", action="store_true", help="a table as in docs/benchmarks.md")
    options = parser.parse_args()
    rows, complete = run(options)
    if options.json:
        print(json.dumps({**environment(), "rows": [asdict(row) for row in rows]}, indent=2))
    elif options.markdown:
        print_markdown(rows)
    else:
        print_text(rows)
    return 0 if complete else 1


if __name__ == "__main__":
    sys.exit(main())
