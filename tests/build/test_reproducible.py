"""What decides the bytes of a package: not where, when, by whom, or with which seed of Python's hashes it is built."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from meta_infer.package.archive import make_folder
from meta_infer.package.format import CONFIG, LOCK, MANIFEST, REPORT
from meta_infer.support.errors import UsageError

BUILD = "import sys; from meta_infer.cli.main import main; sys.exit(main(sys.argv[1:]))"
HERE = {"PYTHONHASHSEED": "1", "TZ": "UTC", "LC_ALL": "C.UTF-8", "USER": "somebody", "SOURCE_DATE_EPOCH": "1700000001"}
THERE = {"PYTHONHASHSEED": "4242", "TZ": "Asia/Tokyo", "LC_ALL": "C", "USER": "nobody", "LOGNAME": "nobody",
         "SOURCE_DATE_EPOCH": "1700000001"}
MODEL = "net.onnx"


def write_model(path: Path) -> None:
    """Two branches that meet, so that there is an order to choose, layouts to convert and names in dicts and sets."""
    rng = np.random.default_rng(0)
    w = {name: rng.standard_normal(shape).astype(np.float32) / 4
         for name, shape in {"a": (16, 3, 3, 3), "b": (16, 16, 1, 1), "d": (16, 9)}.items()}
    nodes = [helper.make_node("Conv", ["x", "a"], ["p"], "first", pads=[1, 1, 1, 1]),
             helper.make_node("Relu", ["p"], ["q"], "relu"),
             helper.make_node("Conv", ["q", "b"], ["r"], "left"),
             helper.make_node("Add", ["r", "q"], ["t"], "join"),
             helper.make_node("GlobalAveragePool", ["t"], ["u"], "pool"),
             helper.make_node("Flatten", ["u"], ["v"], "flat"), helper.make_node("MatMul", ["v", "d"], ["y"], "head")]
    graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 12, 12])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 9])],
                              [numpy_helper.from_array(array, name) for name, array in w.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def build(folder: Path, env: Mapping[str, str], *flags: str, umask: int = 0o022) -> bytes:
    """The package that a build in `folder` writes, in a process of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    write_model(folder / MODEL)
    done = subprocess.run([sys.executable, "-c", BUILD, "build", "--model", MODEL, "--output", "net.bin",
                           "--shape", "x=1..4,3,12,12", *flags], cwd=folder, env={**os.environ, **env},
                          capture_output=True, text=True, umask=umask, check=False)
    assert done.returncode == 0, done.stderr
    return (folder / "net.bin").read_bytes()


def differing(one: Path, other: Path) -> list[str]:
    """Members that are not the same in two packages."""
    with zipfile.ZipFile(one) as a, zipfile.ZipFile(other) as b:
        return [name for name in sorted({*a.namelist(), *b.namelist()})
                if name not in a.namelist() or name not in b.namelist() or a.read(name) != b.read(name)]


def test_two_builds(tmp_path: Path) -> None:
    one = build(tmp_path / "one", HERE)
    other = build(tmp_path / "other folder", THERE, umask=0o077)
    assert one == other, differing(tmp_path / "one" / "net.bin", tmp_path / "other folder" / "net.bin")
    with zipfile.ZipFile(tmp_path / "one" / "net.bin") as package:
        assert {info.date_time for info in package.infolist()} == {(2023, 11, 14, 22, 13, 20)}
        for text in (package.read(name) for name in package.namelist()):
            assert str(tmp_path).encode() not in text and b"somebody" not in text


def test_searched_builds(tmp_path: Path) -> None:
    """Recorded times and choices give the same bytes elsewhere, and a lock gives the choices without any record."""
    library = {"META_INFER_LIBRARY": str(tmp_path / "library.sqlite")}
    searched = ("--search-mode", "fast", "--search-seconds", "600")      # a slow machine ends like a quick one
    one = build(tmp_path / "one", HERE | library, *searched)
    other = build(tmp_path / "other folder", THERE | library | {"META_INFER_MEASURE": "replay"}, *searched, umask=0o077)
    assert one == other, differing(tmp_path / "one" / "net.bin", tmp_path / "other folder" / "net.bin")

    lock = tmp_path / "build.lock.json"
    with zipfile.ZipFile(tmp_path / "one" / "net.bin") as package:
        lock.write_bytes(package.read(LOCK))
    clean = {"META_INFER_LIBRARY": str(tmp_path / "none.sqlite"), "META_INFER_CACHE": str(tmp_path / "cache")}
    build(tmp_path / "clean", THERE | clean, "--replay", str(lock), umask=0o077)
    assert not Path(clean["META_INFER_LIBRARY"]).exists()
    told = {CONFIG, REPORT, MANIFEST}                   # how choices came about, and the hashes of these two
    assert set(differing(tmp_path / "one" / "net.bin", tmp_path / "clean" / "net.bin")) <= told


@pytest.mark.parametrize("text", ["yesterday", "-1", "1.5", "1e9", "١٢"])
def test_a_date_that_is_none(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", text)
    with pytest.raises(UsageError, match="SOURCE_DATE_EPOCH: is .*, expected seconds since 1970"):
        make_folder(tmp_path / "net.bin")
