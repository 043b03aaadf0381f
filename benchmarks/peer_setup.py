"""The peers' own environment, and models in the form that each of them takes.

Nothing here imports a peer: packages are installed into a virtual environment of their own, converters run in it as
processes. What cannot be installed or converted raises PeerFailed, whose text stands in that peer's row.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

PACKAGES: Mapping[str, Sequence[Sequence[str]]] = {
    "onnxruntime": (("onnxruntime",),), "openvino": (("openvino",),), "mnn": (("MNN",),),
    # The converter's Python side would bring torch with it; its program needs neither.
    "ncnn": (("ncnn",), ("--no-deps", "pnnx")),
}
"""What pip is asked for, peer by peer, so that one that fails leaves the others alone."""

_INSTALL_LIMIT, _CONVERT_LIMIT = 1800, 600


class PeerFailed(Exception):
    """A peer that cannot take part, and why."""


@dataclass(frozen=True)
class Environment:
    """A virtual environment with what could be installed; `missing` says why a peer is not there."""

    folder: Path
    missing: Mapping[str, str]

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"


@dataclass(frozen=True)
class Model:
    """A model at fixed sizes, and the inputs that everybody gets: `inputs` is a file of `arrays`, in their order."""

    name: str
    onnx: Path
    arrays: Mapping[str, np.ndarray]
    inputs: Path
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Converted:
    """What a worker is asked to load; `bytes` of all files together, `request` is what the engine needs besides."""

    file: Path
    bytes: int
    request: Mapping[str, object]


def _run(command: Sequence[str], limit: float, folder: Path | None = None) -> str:
    """What a process says. Raises PeerFailed with its last telling line."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=limit, cwd=folder,
                              check=False)
    except subprocess.TimeoutExpired as error:
        raise PeerFailed(f"{Path(command[0]).name} is still running after {limit:.0f} s") from error
    if done.returncode != 0:
        raise PeerFailed(_reason(f"{done.stdout}\n{done.stderr}", done.returncode))
    return done.stdout


def _reason(text: str, code: int) -> str:
    """The line that tells most about a failure: the last with 'error' or the like in it, else the last."""
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith(("WARNING", "Note", "[notice]"))]
    telling = [line for line in lines if re.search(r"error|fail|not support|unsupport|cannot", line, re.IGNORECASE)]
    how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
    return f"{how}: {(telling or lines or ['nothing said'])[-1][:300]}"


def prepare(folder: Path, peers: Sequence[str], say: object = None) -> Environment:
    """The environment with the packages of `peers`; what is there already is not installed again."""
    python = folder / "bin" / "python"
    if not python.exists():
        _run([sys.executable, "-m", "venv", str(folder)], _INSTALL_LIMIT)
        _run([str(python), "-m", "pip", "install", "--quiet", "--only-binary=:all:", "numpy"], _INSTALL_LIMIT)
    missing = {}
    for peer in peers:
        for packages in PACKAGES[peer]:
            if all(_is_installed(python, name) for name in packages if not name.startswith("-")):
                continue
            if callable(say):
                say(f"{peer}: installing {packages[-1]}")
            try:
                _run([str(python), "-m", "pip", "install", "--quiet", "--only-binary=:all:", *packages],
                     _INSTALL_LIMIT)
            except PeerFailed as error:
                missing[peer] = f"cannot install: {error}"
                break
    return Environment(folder, missing)


def _is_installed(python: Path, package: str) -> bool:
    probe = f"import importlib.metadata as m; m.version({package!r})"
    return subprocess.run([str(python), "-c", probe], capture_output=True, check=False).returncode == 0


def convert(environment: Environment, peer: str, model: Model, folder: Path) -> Converted:
    """The model for `peer`, converted once for these sizes. Raises PeerFailed."""
    if peer in environment.missing:
        raise PeerFailed(environment.missing[peer])
    if peer == "onnxruntime":
        return Converted(model.onnx, model.onnx.stat().st_size, {})
    with model.onnx.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()[:12]
    shapes = "-".join("x".join(map(str, a.shape)) for a in model.arrays.values())
    place = folder / f"{peer}-{model.name.replace(' ', '-')}-{digest}-{hashlib.sha256(shapes.encode()).hexdigest()[:8]}"
    noted = place / "converted.json"
    if not noted.exists():
        place.mkdir(parents=True, exist_ok=True)
        try:
            found = _CONVERTERS[peer](environment, model, place)
        except PeerFailed as error:
            found = {"error": f"cannot convert: {error}"}
        noted.write_text(json.dumps(found))
    known = json.loads(noted.read_text())
    if "error" in known:
        raise PeerFailed(known["error"])
    files = [place / name for name in known["files"]]
    return Converted(files[0], sum(file.stat().st_size for file in files), known.get("request", {}))


def _openvino(environment: Environment, model: Model, place: Path) -> dict[str, object]:
    """The intermediate form with float32 weights and fixed sizes."""
    shapes = {name: list(a.shape) for name, a in model.arrays.items()}
    program = (f"import openvino as ov\nm = ov.Core().read_model({str(model.onnx)!r})\nm.reshape({shapes!r})\n"
               f"ov.save_model(m, {str(place / 'model.xml')!r}, compress_to_fp16=False)\n")
    _run([str(environment.python), "-c", program], _CONVERT_LIMIT)
    return {"files": ["model.xml", "model.bin"]}


def _mnn(environment: Environment, model: Model, place: Path) -> dict[str, object]:
    said = _run([str(environment.python), "-m", "MNN.tools.mnnconvert", "-f", "ONNX", "--modelFile", str(model.onnx),
                 "--MNNModel", str(place / "model.mnn"), "--bizCode", "benchmark"], _CONVERT_LIMIT, place)
    if not (place / "model.mnn").exists():
        raise PeerFailed(_reason(said, 0))
    return {"files": ["model.mnn"]}


def _ncnn(environment: Environment, model: Model, place: Path) -> dict[str, object]:
    """pnnx writes all it makes beside its input, and a program that shows how inputs are given."""
    (place / "model.onnx").unlink(missing_ok=True)
    (place / "model.onnx").symlink_to(model.onnx.resolve())
    for i, array in enumerate(model.arrays.values()):
        np.save(place / f"in{i}.npy", array)
    inputs = ",".join(f"in{i}.npy" for i in range(len(model.arrays)))
    program = next(environment.folder.glob("lib/python*/site-packages/pnnx/pnnx"))
    said = _run([str(program), "model.onnx", f"input={inputs}", "fp16=0"], _CONVERT_LIMIT, place)
    if not (place / "model.ncnn.param").exists():
        raise PeerFailed(_reason(said, 0))
    shown = (place / "model_ncnn.py").read_text()
    batch = []
    for i in range(len(model.arrays)):
        given = re.search(rf'input\("in{i}", ncnn\.Mat\(in{i}\.[^)]*\)(?:, batch_index=(\d+))?', shown)
        batch.append(int(given[1]) if given and given[1] else -1)
    return {"files": ["model.ncnn.param", "model.ncnn.bin"], "request": {"batch": batch}}


_CONVERTERS = {"openvino": _openvino, "mnn": _mnn, "ncnn": _ncnn}
