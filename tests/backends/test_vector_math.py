"""Errors of the vector functions, with FMA, without, and emulated: at every 4001st float and near special points.

`benchmarks/check_vector_math.py --full` checks all of them; docs/vector-math.md has its results.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from meta_infer.backends.cpu.loaded import LoadedModule
from meta_infer.support.dtypes import FLOAT64
from tests.emulators import need_emulator
from tests.kernels.harness import host_isa

ROOT = Path(__file__).resolve().parents[2]
STEP = 4001
EMULATED_STEP = 40009


def _script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_vector_math", ROOT / "benchmarks" / "check_vector_math.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module                    # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


check = _script()
pytestmark = pytest.mark.skipif(not host_isa().startswith("x86"), reason="compares two x86 instruction sets")


@pytest.fixture(scope="module", params=["x86-64-v3", "x86-64-v2", "aarch64"])
def functions(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A LoadedModule or an Emulated of the script."""
    if request.param == "aarch64":
        need_emulator("aarch64")
        return check.Emulated("aarch64", tmp_path_factory.mktemp("emulated"))
    if request.param > host_isa():
        pytest.skip(f"this machine has no {request.param}")
    return check.build(request.param, tmp_path_factory.mktemp("cache"))


@pytest.mark.parametrize("name", [n for n in check.LIMITS if n != "pow"])
def test_error_over_all_floats(functions: Any, name: str) -> None:
    step = STEP if isinstance(functions, LoadedModule) else EMULATED_STEP
    error, where = check.worst(functions, name, step)
    assert error <= check.LIMITS[name], f"{name}({where!r}) is {error:.2f} ulp off"


def test_error_of_pow(functions: Any) -> None:
    error, where = check.worst_pow(functions, 100_000)
    assert error <= check.LIMITS["pow"], f"pow({where!r}, ...) is {error:.2f} ulp off"


def test_special_values(functions: Any) -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 104.5, -104.5], np.float32)
    with np.errstate(all="ignore"):
        for name in ("exp", "tanh", "sigmoid", "erf", "sin", "cos", "log"):
            want = check.REFERENCES[name](x.astype(np.float64)).astype(np.float32)
            got = check.apply(functions, name, x)
            assert np.isnan(got).tolist() == np.isnan(want).tolist(), name
            if name in ("tanh", "erf", "sin"):
                numbers = ~np.isnan(want)
                assert np.signbit(got[numbers]).tolist() == np.signbit(want[numbers]).tolist(), name


def test_exp_underflows_through_denormals(functions: Any) -> None:
    x = np.linspace(-104, -87, 4097).astype(np.float32)
    got = check.apply(functions, "exp", x)
    assert np.all(np.diff(got) >= 0) and got[0] == 0 and (np.unique(got[got < 1.17549435e-38]).size > 1000)


@pytest.mark.parametrize(("name", "limit"), [("exp", 2), ("log", 2), ("tanh", 8), ("sigmoid", 4), ("erf", 16),
                                             ("sin", 4), ("cos", 4), ("pow", 3000)])
def test_float64(name: str, limit: float, tmp_path_factory: pytest.TempPathFactory) -> None:
    """References are float64 themselves, right to about 1 ulp; sin and cos are compared away from their zeros."""
    functions = _doubles(tmp_path_factory)
    rng = np.random.default_rng(5)
    x = np.concatenate([rng.normal(size=4000) * 10.0 ** rng.integers(-6, 3, 4000), [0.0, 1.0, 709.5, -740.0, 1e-300]])
    x = np.abs(x) if name in ("log", "pow") else x
    args = (x, rng.uniform(-30, 30, x.size)) if name == "pow" else (x,)
    with np.errstate(all="ignore"):
        want = check.REFERENCES[name](*args)
        got = check.apply(functions, name, *args)
        errors = np.abs(got - want) / np.spacing(np.abs(want))
    kept = np.isfinite(want) & (np.abs(want) > (1e-3 if name in ("sin", "cos") else 1e-307 if name == "pow" else 0))
    assert errors[kept].max() <= limit
    assert (got[~np.isfinite(want)] == want[~np.isfinite(want)]).all()


_BUILT: list[LoadedModule] = []


def _doubles(factory: pytest.TempPathFactory) -> LoadedModule:
    if not _BUILT:
        _BUILT.append(check.build(host_isa(), factory.mktemp("doubles"), FLOAT64))
    return _BUILT[0]
