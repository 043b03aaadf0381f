"""The tree keeps its import direction, and the check that says so can fail."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "tools" / "check_imports.py"


def run_check(folder: Path) -> tuple[int, str]:
    command = [sys.executable, str(SCRIPT), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def make_package(tmp_path: Path, files: dict[str, str]) -> Path:
    root = tmp_path / "meta_infer"
    for name, text in {"__init__.py": "", **files}.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        (file.parent / "__init__.py").touch()
        file.write_text(text)
    return root


def test_the_tree_is_clean() -> None:
    assert run_check(ROOT / "src" / "meta_infer") == (0, "")


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("ir/graph.py", "from meta_infer.passes import x", "ir imports passes: points upwards"),
        ("ir/graph.py", "import meta_infer.hardware.profile", "ir imports hardware: points sideways"),
        ("ir/graph.py", "def f():\n    from meta_infer import api\n", ":2: ir imports api: points upwards"),
        ("ir/graph.py", "from ..ops import conv", "ir imports ops: points upwards"),
        ("frontend/onnx.py", "from meta_infer.passes.pipeline import run", "points sideways"),
        ("ops/conv.py", "import meta_infer", "stands in no row"),
        ("extras/a.py", "import meta_infer.ir", "folder 'extras' stands in no row"),
        ("runtime/session.py", "import meta_infer.ir.graph", "runtime imports ir: points upwards"),
        ("runtime/session.py", "def f():\n    import onnx\n", ":2: the runtime reaches onnx"),
        ("ir/long.py", "x = 1\n" * 501, "501 lines, at most 500"),
        ("runtime/c/pool.c", "\n" * 501, "501 lines, at most 500"),
    ],
)
def test_a_breach_is_named(tmp_path: Path, file: str, text: str, message: str) -> None:
    others = ("api.py", "ops/conv.py", "passes/pipeline.py", "hardware/profile.py", "ir/graph.py")
    code, output = run_check(make_package(tmp_path, {**dict.fromkeys(others, ""), file: text}))
    assert code == 1
    assert message in output and file in output


def test_what_support_needs_counts_for_the_runtime(tmp_path: Path) -> None:
    files = {"runtime/session.py": "from meta_infer.support import trace", "support/trace.py": "import rich"}
    code, output = run_check(make_package(tmp_path, files))
    assert code == 1 and "the runtime reaches rich" in output
    files["runtime/session.py"] = "import json, numpy as np\nfrom meta_infer.support.errors import E"
    code, output = run_check(make_package(tmp_path / "b", {**files, "support/errors.py": ""}))
    assert (code, output) == (0, "")


OPTIONAL = "def f():\n    try:\n        import {}\n    except {}:\n        return None\n"


@pytest.mark.parametrize(("file", "text", "allowed"), [
    ("support/dtypes.py", OPTIONAL.format("ml_dtypes", "ImportError"), True),
    ("support/dtypes.py", OPTIONAL.format("ml_dtypes", "KeyError"), False),
    ("support/dtypes.py", "def f():\n    import ml_dtypes\n", False),
    ("support/dtypes.py", "try:\n    import ml_dtypes\nexcept ImportError:\n    pass\n", False),
    ("support/dtypes.py", OPTIONAL.format("onnx", "ImportError"), False),
    ("runtime/reader.py", OPTIONAL.format("ml_dtypes", "ImportError"), False),
])
def test_one_import_is_optional(file: str, text: str, allowed: bool, tmp_path: Path) -> None:
    """It is named, is made when it is needed, and the runtime does without it: tests/build/test_narrow_types.py."""
    files = {"runtime/session.py": "from meta_infer.support import dtypes", "support/dtypes.py": "", file: text}
    assert run_check(make_package(tmp_path, files))[0] == (0 if allowed else 1)


def test_downward_imports_and_the_version_are_fine(tmp_path: Path) -> None:
    files = {
        "cli/main.py": "from meta_infer.api import build\nimport typer",
        "api.py": "from meta_infer.package.writer import write",
        "package/writer.py": "from meta_infer import __version__\nfrom . import names\nfrom ..ir import x",
        "package/names.py": "",
        "ir/graph.py": "from meta_infer.support import dtypes",
        "support/dtypes.py": "import numpy",
    }
    assert run_check(make_package(tmp_path, files)) == (0, "")


def test_a_wrong_folder_is_an_error(tmp_path: Path) -> None:
    code, output = run_check(tmp_path)
    assert code == 2 and "not the folder of a package" in output


def test_importing_the_package_imports_no_compiler() -> None:
    program = (
        "import sys, meta_infer\n"
        "heavy = {'onnx', 'onnxruntime', 'ortools', 'scipy', 'pydantic', 'typer', 'rich', 'ziglang'}\n"
        "print(sorted(heavy & set(sys.modules)), meta_infer.__version__, 'load' in dir(meta_infer))\n"
        "try:\n    meta_infer.nothing\nexcept AttributeError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0].startswith("[] 0.")
    assert done.stdout.splitlines()[0].endswith("True")
    assert "no attribute 'nothing'" in done.stdout
