"""Packages of the models that the whole compiler answers for, each built once for all tests."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Mapping
from contextlib import chdir
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

import onnx

from meta_infer import api
from meta_infer.frontend.import_model import import_model
from meta_infer.frontend.symbols import parse_shape_spec
from meta_infer.ir.graph import Graph

from .cases import ModelCase
from .control_flow import if_and_loop


@dataclass(frozen=True)
class Built:
    """One package of a model, and its graph as imported."""

    model: Path
    package: Path
    graph: Graph


def model_file(name: str, folder: Path, real_model: Callable[[str], Path]) -> Path:
    if name == "digits":
        with as_file(files("meta_infer.demo") / "digits.onnx") as path:
            return path
    if name == "if_and_loop":
        path = folder / "if_and_loop.onnx"
        onnx.save(if_and_loop(), path)
        return path
    return real_model(name)


def build(case: ModelCase, model: Path, folder: Path) -> Mapping[str, object]:
    """Builds a package in `folder`; the compile step's figures.

    The package keeps its own path as given: a relative one, so that builds in two folders can be equal.
    """
    with chdir(folder):
        result = api.build(model, output=f"{case.name}.bin", shape=case.shape, verify=False)
    return next(step.figures for step in result.trace.steps if step.name == "compile")


def build_once(case: ModelCase, folder: Path, real_model: Callable[[str], Path]) -> Built:
    """The package of a case in `folder`, also when parallel workers ask for it at once."""
    package = folder / f"{case.name}.bin"
    with (folder / f"{case.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        model = model_file(case.name, folder, real_model)
        if not package.exists():
            build(case, model, folder)
    return Built(model, package, import_model(model, dict(map(parse_shape_spec, case.shape))))
