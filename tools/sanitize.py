"""Whole packages under AddressSanitizer with UBSan, under ThreadSanitizer, and in all arena modes.

    python tools/sanitize.py                                # all small models and every real model there is
    python tools/sanitize.py resnet18 minilm_l6 --kinds asan tsan
    python tools/sanitize.py tiny sized digits --kinds asan     # the small models of tests/build, and the demo's

Each model is built, its generated C and the runtime are compiled by gcc with the sanitizer, and a C driver runs it in
all arena modes at one and at two threads; outputs must be the same bytes everywhere. `arena` runs the package itself
in all arena modes. Dynamic dims are small (--size).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import onnx
from tests.build.sized_models import CASES
from tests.build.tiny_models import MODELS
from tests.real_models import ModelMissing, find_model
from tests.sanitizers.whole_package import CannotCheck, Unclean, check, compare_arenas

from meta_infer import api
from meta_infer.frontend.import_model import import_model
from meta_infer.support.errors import MetaInferError
from meta_infer.support.switches import read_switches
from meta_infer.verify.samples import random_inputs, small_point

DIGITS = Path(api.__file__).resolve().parent / "demo" / "digits.onnx"
REAL = ("resnet18", "resnet50", "mobilenetv2", "mobilenetv3_large", "efficientnet_b0", "efficientnet_lite0_imagenet",
        "squeezenet1_1", "shufflenetv2_x1_0", "convnext_atto", "unet_small_256", "vit_tiny_patch16_224",
        "bert_mini_s128", "minilm_l6", "crnn_bilstm", "detector_320", "ppocr_det", "ppocr_rec", "ppocr_cls")


def models(names: Sequence[str], folder: Path) -> Iterator[tuple[str, Path]]:
    """Name and ONNX file of every model asked for; those that are not there are said so and left out."""
    cache = read_switches().cache / "benchmarks"
    cache.mkdir(parents=True, exist_ok=True)
    for name in names:
        if name == "tiny":
            for tiny, make in MODELS.items():
                onnx.save(make(), folder / f"{tiny}.onnx")
                yield tiny, folder / f"{tiny}.onnx"
        elif name == "sized":
            for sized, (make, _) in CASES.items():
                onnx.save(make(), folder / f"{sized}.onnx")
                yield sized, folder / f"{sized}.onnx"
        elif name == "digits":
            yield name, DIGITS
        else:
            try:
                yield name, Path(name) if name.endswith(".onnx") else find_model(name, cache)
            except ModelMissing as missing:
                print(f"{name}: NOT CHECKED: {missing}", flush=True)


def check_model(model: Path, kinds: Sequence[str], size: int, folder: Path) -> Iterator[tuple[str, str]]:
    """(kind, result) of each check of one model."""
    folder.mkdir(exist_ok=True)
    package = api.build(model, output=folder / "model.bin", verify=False).path
    assert package is not None
    graph = import_model(model)
    if model.stem in CASES:                                # their inputs hold sizes
        inputs = CASES[model.stem][1][0]
    else:
        inputs = random_inputs(graph, small_point(graph.input_symbols, size), seed=0)
    for kind in kinds:
        start = time.monotonic()
        try:
            if kind == "arena":
                compare_arenas(package, inputs)
            else:
                check(package, inputs, kind, folder)
            yield kind, f"clean ({time.monotonic() - start:.0f} s)"
        except CannotCheck as reason:
            yield kind, f"NOT CHECKED: {reason}"
        except Unclean as fault:
            yield kind, f"FAULT\n{fault}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=["tiny", "sized", "digits", *REAL])
    parser.add_argument("--kinds", nargs="+", choices=("asan", "tsan", "arena"), default=["asan", "tsan", "arena"])
    parser.add_argument("--size", type=int, default=16, help="of dynamic dims, where their range has it")
    options = parser.parse_args()
    clean = True
    with tempfile.TemporaryDirectory(prefix="sanitize-") as folder:
        for name, model in models(options.models, Path(folder)):
            try:
                for kind, result in check_model(model, options.kinds, options.size, Path(folder) / f"of-{model.stem}"):
                    print(f"{name}: {kind}: {result}", flush=True)
                    clean &= not result.startswith("FAULT")
            except MetaInferError as error:
                print(f"{name}: NOT BUILT: {error}", flush=True)
                clean = False
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())
